"""A relay on the way of a connection, which keeps all bytes that pass: who listens on the wire."""

import socket
import threading
from contextlib import suppress


class Relay:
    """Passes connections on to a port of this machine, for the length of a context.

    heard: what passed on each connection, by direction: up to the server, or down from it.
    """

    def __init__(self, port: int):
        self._target = port
        self.heard: dict[str, list[bytearray]] = {"up": [], "down": []}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def all_of(self, direction: str) -> bytes:
        """Of all connections, one after the other."""
        return b"\n".join(map(bytes, self.heard[direction]))

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                here, _ = self._listener.accept()
                try:
                    there = socket.create_connection(("127.0.0.1", self._target))
                except OSError:  # the server is gone for a while
                    here.close()
                    continue
                for source, sink, direction in ((here, there, "up"), (there, here, "down")):
                    self.heard[direction].append(kept := bytearray())
                    pump = threading.Thread(
                        target=self._pump, args=(source, sink, kept), daemon=True
                    )
                    pump.start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                kept += content
                sink.sendall(content)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
