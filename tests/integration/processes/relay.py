"""TCP relays on localhost: links that can be cut and held, and one that stands still in the middle of what is sent through it."""

import contextlib
import socket
import threading


class Link:
    """Connections to `address` are connections to `server` ("HOST:PORT"). Threads carry the bytes. Every method may be called from any thread."""

    def __init__(self, server, own_port=0):
        host, port = server.rsplit(":", 1)
        self._server = (host, int(port))
        self._lock = threading.Lock()
        # While it is not set, nothing passes and nothing is answered.
        self._free = threading.Event()
        self._free.set()
        self._refuses = False
        self._sockets = set()
        # Of these, those to which nothing is sent any more.
        self._silent = set()
        self._listener = socket.create_server(("127.0.0.1", own_port))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Ends all connections. New ones end at once until mend()."""
        with self._lock:
            self._refuses = True
            sockets = list(self._sockets)
        for each in sockets:
            self._end(each)

    def hold(self):
        """Connections stay, and carry nothing until mend(), as in a network that loses every packet."""
        self._free.clear()

    def forget_answers(self):
        """What comes from the server over the connections of now is lost. New ones work, as behind a firewall that forgot."""
        with self._lock:
            self._silent |= self._sockets

    def mend(self):
        with self._lock:
            self._refuses = False
        self._free.set()

    def close(self):
        self._listener.close()
        self.cut()
        self._free.set()

    def _pass(self, sink, data, upward):
        """Sends `data` on, to the server or (not `upward`) from it."""
        self._free.wait()
        sink.sendall(data)

    def _accept(self):
        # OSError: it is closed.
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client:
            try:
                server = socket.create_connection(self._server)
            except OSError:
                # The server is not there.
                return
            with server:
                with self._lock:
                    if self._refuses:
                        return
                    self._sockets |= {client, server}
                back = threading.Thread(target=self._carry, args=(server, client, False), daemon=True)
                back.start()
                self._carry(client, server, True)
                back.join()
                with self._lock:
                    self._sockets -= {client, server}

    def _carry(self, source, sink, upward):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if upward or sink not in self._silent:
                    self._pass(sink, data, upward)
        for each in (source, sink):
            self._end(each)

    @staticmethod
    def _end(each):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class Relay(Link):
    """Begins to stand still behind `most` bytes, of all connections together, from the server or (`upward`) to it: whatever is sent is in the middle
    then. It takes no more in that direction until mend()."""

    def __init__(self, server, most, upward=False):
        self._left, self._upward = most, upward
        self._full = threading.Event()
        super().__init__(server)

    def wait_full(self, seconds):
        if not self._full.wait(seconds):
            raise AssertionError(f"waited {seconds} s for the relay to be full")

    def mend(self):
        with self._lock:
            self._left = float("inf")
        super().mend()

    def _pass(self, sink, data, upward):
        if upward != self._upward:
            return sink.sendall(data)
        with self._lock:
            may = min(len(data), self._left)
            self._left -= may
        sink.sendall(data[:may])
        if may < len(data):
            self.hold()
            self._full.set()
            super()._pass(sink, data[may:], upward)
