"""A TCP relay that does to connections what bad networks do to them."""

import contextlib
import socket
import struct
import threading
import time

from cluster import free_port
from relay import Link

# Whoever closes such a socket sends RST.
AT_ONCE = struct.pack("ii", 1, 0)


class BadLink(Link):
    """As Link; besides: one direction alone stands still, RST, a break after some bytes, delay, bandwidth, refusals. mend() ends each of them."""

    def __init__(self, server):
        self._ways = {True: threading.Event(), False: threading.Event()}
        self._abrupt = set()
        self._calm()
        # A port that the kernel chose would be another one after refusals.
        super().__init__(server, free_port())

    def _calm(self):
        self._left, self._seconds, self._bytes_per_second = None, 0, None
        for way in self._ways.values():
            way.set()

    def hold_one_way(self, upward):
        self._ways[upward].clear()

    def reset(self):
        """All connections get RST, once. New ones work."""
        with self._lock:
            self._abrupt = set(self._sockets)
            sockets = list(self._sockets)
        for each in sockets:
            self._end(each)

    def reset_after(self, most):
        """All connections get RST each time when so many bytes have passed, of all together."""
        self._most = self._left = most

    def delay(self, seconds):
        self._seconds = seconds

    def narrow(self, bytes_per_second):
        self._bytes_per_second = bytes_per_second

    def refuse(self):
        """Nobody listens; connections of now stay."""
        self._listener.shutdown(socket.SHUT_RDWR)

    def mend(self):
        self._calm()
        if not self._listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            self._listener.listen()
            threading.Thread(target=self._accept, daemon=True).start()
        super().mend()

    def close(self):
        self.mend()
        self._listener.shutdown(socket.SHUT_RDWR)
        super().close()

    def _pass(self, sink, data, upward):
        if sink in self._abrupt:  # What was received before is lost, too.
            raise ConnectionResetError
        time.sleep(self._seconds)
        rate = self._bytes_per_second
        size = len(data) if rate is None else max(1, rate // 10)
        for begin in range(0, len(data), size):
            piece = data[begin:begin + size]
            self._ways[upward].wait()
            super()._pass(sink, self._cut(piece), upward)
            if rate is not None:
                time.sleep(len(piece) / rate)

    def _cut(self, data):
        with self._lock:
            if self._left is None:
                return data
            passed = min(len(data), self._left)
            self._left = self._left - passed or self._most
        if passed < len(data):
            self.reset()
        return data[:passed]

    def _end(self, each):
        if each not in self._abrupt:
            return super()._end(each)
        # The threads that carry its bytes come to their end, and close it.
        with contextlib.suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            each.shutdown(socket.SHUT_RD)
