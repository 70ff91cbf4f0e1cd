"""`informer serve`, from the checked configuration to the end of the server."""

import math
import signal
import socket

import uvicorn
from rich.console import Console

from informer.checkpoint.paths import forecasting_checkpoint
from informer.config.serving import ServeConfig
from informer.console import logging_to, say
from informer.errors import InputError
from informer.inference.predictor import TrainedModel
from informer.serving.app import build_app
from informer.serving.service import Service

BACKLOG = 1024
"""Maximum number of connections waiting to be accepted."""


def serve(settings: ServeConfig, console: Console) -> None:
    """Serve requests until Ctrl-C or SIGTERM, then finish those in progress.

    Raises:
        InputError: no readable checkpoint, or the address cannot be used.
    """
    with logging_to(console, quiet=True):
        app = build_app(
            Service(TrainedModel.load(forecasting_checkpoint(settings.checkpoint), device=settings.device), settings)
        )
        with listening(settings.host, settings.port) as listener:
            server = uvicorn.Server(
                uvicorn.Config(
                    app,
                    log_config=None,
                    access_log=False,
                    server_header=False,
                    ws="none",
                    lifespan="on",
                    timeout_graceful_shutdown=math.ceil(settings.timeout),
                )
            )
            # uvicorn stops at these signals and raises them again at its end, which must not kill the process
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            say(console, f"serving {settings.checkpoint} at {address(listener)} (Ctrl-C stops)")
            server.run(sockets=[listener])
    say(console, "stopped")


def listening(host: str, port: int) -> socket.socket:
    """A socket that accepts connections.

    Raises:
        InputError: the address is unknown, in use or not permitted.
    """
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"host={host} port={port}: cannot listen there ({reason}); choose another") from error
    return listener


def address(listener: socket.socket) -> str:
    """URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family is socket.AF_INET6 else f"http://{host}:{port}"
