"""A relay on the way of a connection, which keeps all bytes that pass: who listens on the wire."""

import select
import socket
import ssl
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

from fedsynth_lib.release.deploy import keys


class Relay:
    """Passes connections on to a port of this machine, for the length of a context.

    heard: what passed on each connection, by direction: up to the server, or down from it.
    own: the server's folder of keys, for one who has them: it reads what TLS hides.
    """

    def __init__(self, port: int, own: Path | None = None):
        self._target, self._own = port, own
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
                threading.Thread(target=self._carry, args=(here,), daemon=True).start()

    def _carry(self, here: socket.socket) -> None:
        """One connection, to its end; where the server is away, it ends at once."""
        with suppress(OSError), ExitStack() as stack:
            there = stack.enter_context(socket.create_connection(("127.0.0.1", self._target)))
            stack.enter_context(here)
            if self._own is not None:
                contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._trusting()
                for context in contexts:  # in a later one a record may hold nothing to pass on
                    context.maximum_version = ssl.TLSVersion.TLSv1_2
                contexts[0].load_cert_chain(self._own / "server.pem", self._own / "server.key")
                here = stack.enter_context(contexts[0].wrap_socket(here, server_side=True))
                there = contexts[1].wrap_socket(there, server_hostname="localhost")
                stack.enter_context(there)
            ways = {here: (there, bytearray()), there: (here, bytearray())}
            for direction, (_, kept) in zip(("up", "down"), ways.values(), strict=True):
                self.heard[direction].append(kept)
            while True:
                waiting = [each for each in ways if getattr(each, "pending", int)()]
                for source in waiting or select.select(list(ways), [], [])[0]:
                    sink, kept = ways[source]
                    if not (content := source.recv(1 << 16)):
                        return
                    kept += content
                    sink.sendall(content)

    def _trusting(self) -> ssl.SSLContext:
        return keys.trusting((self._own / "ca.pem").read_text())
