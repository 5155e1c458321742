"""An HTTP proxy for CONNECT on localhost, as sites have them. It may want a password, and keeps what it was asked for."""

import base64
import contextlib
import socket
import threading


def own_address():
    """One of this machine that is not localhost. None: it has only localhost."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # Sends nothing.
        except OSError:
            return None
        return probe.getsockname()[0]


class ConnectProxy:
    def __init__(self, credentials=None):
        """`credentials`: USER:PASSWORD. Without them: anybody may use it."""
        self._expected = credentials and "Basic " + base64.b64encode(credentials.encode()).decode()
        # HOST:PORT of each tunnel that was made.
        self.tunnels = []
        # Addresses of names that only the proxy knows.
        self.names = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def _accept(self):
        # OSError: it is closed.
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, contextlib.suppress(OSError):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                more = client.recv(1)
                if not more:
                    return
                head += more
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
            headers = dict(line.split(":", 1) for line in head.decode().split("\r\n")[1:] if ":" in line)
            given = {name.lower(): value.strip() for name, value in headers.items()}.get("proxy-authorization")
            if self._expected and given != self._expected:
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                return
            assert method == "CONNECT", method
            host, port = target.rsplit(":", 1)
            with socket.create_connection((self.names.get(host, host), int(port))) as server:
                self.tunnels.append(target)
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=self._copy, args=(server, client), daemon=True)
                back.start()
                self._copy(client, server)
                back.join()

    @staticmethod
    def _copy(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
