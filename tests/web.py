"""A server of this machine for tests of what reads addresses."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

Server = TypeVar("Server", bound=ThreadingHTTPServer)


class Handler(BaseHTTPRequestHandler):
    """Writes no log: pytest shows what matters."""

    def answer(self, status: int, body: bytes = b"", length: int | None = None) -> None:
        """Send a whole answer; `length`: announced in place of that of the body."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Answer requests in a thread."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
