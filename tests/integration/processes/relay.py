"""A TCP relay on localhost that stands still when so many bytes have passed in one direction: whatever is sent through it is in the middle then."""

import contextlib
import socket
import threading


class Relay:
    """Connections to it are connections to `server` ("HOST:PORT"). It begins to stand still behind `most` bytes, of all connections together, from the
    server or (`upward`) to it. Then it takes no more in that direction until go_on."""

    def __init__(self, server, most, upward=False):
        host, port = server.rsplit(":", 1)
        self._server = (host, int(port))
        self._left, self._upward = most, upward
        self._lock = threading.Lock()
        self._full, self._free = threading.Event(), threading.Event()
        self._sockets = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_full(self, seconds):
        if not self._full.wait(seconds):
            raise AssertionError(f"waited {seconds} s for the relay to be full")

    def go_on(self):
        self._free.set()

    def close(self):
        self.go_on()
        self._listener.close()
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            self._end(each)

    def _accept(self):
        with contextlib.suppress(OSError):  # It is closed.
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._server)
                except OSError:
                    client.close()
                    continue
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client, server):
        with client, server:
            with self._lock:
                self._sockets |= {client, server}
            back = threading.Thread(target=self._carry, args=(server, client, not self._upward), daemon=True)
            back.start()
            self._carry(client, server, self._upward)
            back.join()
            with self._lock:
                self._sockets -= {client, server}

    def _carry(self, source, sink, counted):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if counted:
                    data = self._wait(sink, data)
                sink.sendall(data)
        for each in (source, sink):
            self._end(each)

    def _wait(self, sink, data):
        """Passes on what may pass, and gives back the rest when it may pass, too."""
        with self._lock:
            may = data[:self._left]
            self._left -= len(may)
        if len(may) == len(data):
            return data
        sink.sendall(may)
        self._full.set()
        self._free.wait()
        return data[len(may):]

    @staticmethod
    def _end(each):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
