"""`informer serve`: the HTTP application with its routes, limits on size and time and one-line errors, its log and
metrics; and the server from start to end.
"""

import asyncio
import json
import logging
import math
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, final
from uuid import uuid4

import prometheus_client
import uvicorn
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from rich.console import Console
from starlette.exceptions import HTTPException
from starlette.middleware.base import RequestResponseEndpoint
from starlette.requests import ClientDisconnect

import informer
from informer.base.console import say
from informer.base.errors import InputError, is_out_of_memory, printable
from informer.config.commands import PredictConfig, ServeConfig
from informer.inference.model import Answer
from informer.inference.writing import columns_of, to_csv
from informer.report.page import hashes
from informer.scoring.forecasts import joined
from informer.service import schemas
from informer.service.models import CSV, JSON, Models, Refused, media_type

MB = 1_000_000
PAGE = Path(__file__).with_name("page.html")
access = logging.getLogger("informer.access")
request_id: ContextVar[str] = ContextVar("request_id", default="")

ERRORS = {
    404: "No such model.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is neither CSV nor JSON.",
    422: "The table or an option is invalid; the error says what, where, and what to do.",
    503: "Too many requests in progress.",
    504: "No response in time.",
}
REQUESTS = prometheus_client.Counter("informer_requests", "Answers.", ["path", "status"])
SECONDS = prometheus_client.Histogram("informer_request_seconds", "Time to the answer.", ["path"])
FORECASTS = prometheus_client.Counter("informer_forecasts", "Values that were forecast.", ["model"])
IN_PROGRESS = prometheus_client.Gauge("informer_requests_in_progress", "Forecasts in progress.")
TABLE = "A table with the history of the columns: CSV text, or JSON."


class App:
    """The routes of a service.

    Args:
        settings: models and limits.
    """

    def __init__(self, settings: ServeConfig) -> None:
        self.settings, self.models = settings, Models(settings)
        # reading a table and forecasting a few series are parts; those of all requests take turns
        self._pool, self._in_progress = ThreadPoolExecutor(settings.workers, "forecast"), 0

    def build(self) -> FastAPI:
        """The application."""
        app = FastAPI(
            title="informer", version=informer.__version__, docs_url=None, redoc_url=None,
            description="Forecasts of the pretrained network and of trained models.",
        )  # fmt: skip
        body = {CSV: {"schema": {"type": "string"}}, JSON: {"schema": schemas.Tables.model_json_schema()}}
        of_errors: dict[int | str, dict[str, Any]] = {
            status: {"model": schemas.Problem, "description": text} for status, text in ERRORS.items()
        }
        page = PAGE.read_text(encoding="utf-8")
        headers = {"Content-Security-Policy": _policy(page)}

        @app.get("/health", summary="Whether the process answers")
        async def health() -> schemas.State:
            return schemas.State(status="ok", models=self.models.names)

        @app.get("/ready", summary="Whether further requests are taken", responses={503: {"model": schemas.State}})
        async def ready(response: Response) -> schemas.State:
            is_busy = self._in_progress >= self.settings.max_requests
            response.status_code = 503 if is_busy else 200
            return schemas.State(status="busy" if is_busy else "ready", models=self.models.names)

        @app.get("/metrics", summary="Counters for Prometheus", response_class=Response)
        async def metrics() -> Response:
            IN_PROGRESS.set(self._in_progress)
            return Response(prometheus_client.generate_latest(), media_type=prometheus_client.CONTENT_TYPE_LATEST)

        @app.get("/describe", summary="What the models need and return, and the limits on requests")
        def describe() -> schemas.Service:
            described = [self.models.get(name).description for name in self.models.names]
            limits = schemas.limits_of(self.settings)
            return schemas.Service(version=informer.__version__, models=described, limits=limits)

        @app.post(
            "/forecast", summary="Forecast the rows after the end of a table", response_class=Response,
            responses={200: {"model": schemas.Answer, "content": {CSV: {"schema": {"type": "string"}}}}, **of_errors},
            openapi_extra={"requestBody": {"required": True, "description": TABLE, "content": body}},
        )  # fmt: skip
        async def forecast(request: Request, query: Annotated[schemas.Query, Query()]) -> Response:
            content, kind = await self._answer(request, query)
            return Response(content, media_type=kind)

        for path in ("/", "/docs"):
            app.get(path, include_in_schema=False)(lambda: HTMLResponse(page, headers=headers))
        _answer_errors(app)
        _add_entrance(app, [self.settings.host, *self.settings.hosts])
        return app

    async def _answer(self, request: Request, query: schemas.Query) -> tuple[bytes, str]:
        """Read the body, forecast, and encode the response, within the time limit; returns content and type."""
        timeout, received = self.settings.timeout, False
        if self._in_progress >= self.settings.max_requests:
            raise Refused(503, f"busy: {self._in_progress} requests in progress, at most max_requests; try again")
        self._in_progress += 1
        try:
            async with asyncio.timeout(timeout):
                content = await _content(request, self.settings.max_mb)
                content_type, received = request.headers.get("content-type", ""), True
                accepted = [kind for kind in (CSV, JSON) if kind in request.headers.get("accept", "")]
                kind = accepted[0] if len(accepted) == 1 else media_type(content_type)[0]
                model = await self._in_pool(self.models.get, query.model)
                parts, answers = model.answer(content, content_type, query, self.settings), list[Answer]()
                # after the timeout there are no further parts
                while (part := await self._in_pool(next, parts, None)) is not None:
                    answers += part
                FORECASTS.labels(model.description.name).inc(sum(int(paths.are_steps.sum()) for _, paths in answers))
                return await self._in_pool(to_body, answers, kind)
        except TimeoutError as error:
            if not received:
                raise Refused(408, f"timeout: the body did not arrive within {timeout:g} s") from error
            raise Refused(504, f"timeout: no response within {timeout:g} s; send fewer series, or try again") from error
        finally:
            self._in_progress -= 1

    async def _in_pool(self, work: Any, *arguments: Any) -> Any:
        run = partial(copy_context().run, work, *arguments)
        return await asyncio.get_running_loop().run_in_executor(self._pool, run)


def to_body(answers: Sequence[Answer], kind: str) -> tuple[bytes, str]:
    """Encode the forecasts of a request, made in parts; returns the content and its Content-Type.

    CSV is as `informer predict` writes it; JSON is `schemas.Answer` with the same cells, missing ones null.

    Raises:
        InputError: two columns with the same name.
    """
    panel, paths = [each for of, _ in answers for each in of], joined(paths for _, paths in answers)
    if kind == CSV:
        return to_csv(panel, paths, PredictConfig().digits), f"{CSV}; charset={panel[0].dialect.encoding}"
    written = columns_of(panel, paths, as_written=True)
    table = {name: [None if cell != cell else cell for cell in cells.tolist()] for name, cells in written.items()}
    return json.dumps({"forecast": table}, allow_nan=False).encode(), JSON


def _policy(page: str) -> str:
    """A Content-Security-Policy that allows only the page's own script and style and requests to the service."""
    script, style = (hashes(re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)) for tag in ("script", "style"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _add_entrance(app: FastAPI, names: Sequence[str]) -> None:
    """Give every request an id, the one of its header X-Request-ID if it has one, and log and count its answer. Refuse
    requests with another Host header, by which a web page could make a browser ask this service (DNS rebinding).

    Args:
        names: names and addresses of the service besides those of this machine.
    """
    own_names = sorted({"localhost", "127.0.0.1", "[::1]", *map(_name, names)})

    @app.middleware("http")
    async def entrance(request: Request, call_next: RequestResponseEndpoint) -> Response:
        began, status = time.monotonic(), 500
        given, host = request.headers.get("x-request-id", ""), request.headers.get("host", "")
        request_id.set(given if re.fullmatch(r"[\w.-]{1,64}", given) else uuid4().hex)
        try:
            if _name(host) in own_names:
                response = await call_next(request)
            else:
                line = f"Host: expected {', '.join(own_names)}, found {host!r:.100}; other names: set hosts=[NAME]"
                response = failed(421, line)
            status, response.headers["X-Request-ID"] = response.status_code, request_id.get()
            return response
        finally:
            seconds = time.monotonic() - began
            path = getattr(request.scope.get("route"), "path", "other")  # no label of a client's choice
            REQUESTS.labels(path, status).inc()
            SECONDS.labels(path).observe(seconds)
            facts = {
                "method": request.method,
                "path": request.scope["path"],
                "status": status,
                "seconds": round(seconds, 4),
            }
            access.info("request", extra={"facts": facts | {"client": request.client.host if request.client else ""}})


@final
class JsonLines(logging.Formatter):
    """A log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **({"request": request_id.get()} if request_id.get() else {}),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return json.dumps(facts)


@contextmanager
def json_log() -> Iterator[None]:
    """Log the package and the server to standard error; afterwards their loggers are as before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    loggers = {"informer": logging.INFO, "uvicorn": logging.WARNING}
    before = {name: logging.getLogger(name).level for name in loggers}
    for name, level in loggers.items():
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
    try:
        yield
    finally:
        for name, level in before.items():
            logger = logging.getLogger(name)
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = True


def _name(host: str) -> str:
    """The name or address in a Host header, or in a setting; addresses of IPv6 in brackets."""
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    return re.sub(r":\d*$", "", host.lower())


async def _content(request: Request, max_mb: float) -> bytes:
    """The body, if it is within the limit."""
    line = f"body: more than {max_mb:g} MB; send fewer rows: the last seq_len of each series suffice"
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > max_mb * MB:
        raise Refused(413, line)
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > max_mb * MB:
            raise Refused(413, line)
    return bytes(content)


def failed(status: int, line: str) -> JSONResponse:
    """An answer that says what is wrong."""
    return JSONResponse({"error": printable(line)}, status)


def _answer_errors(app: FastAPI) -> None:
    """Respond to every error with `{"error": line}`, with the line that commands print."""

    @app.exception_handler(InputError)
    async def refused(request: Request, error: InputError) -> Response:
        response = failed(error.status if isinstance(error, Refused) else 422, str(error))
        if response.status_code == 503:
            response.headers["Retry-After"] = "1"
        if response.status_code in (408, 413, 504):
            response.headers["Connection"] = "close"  # the rest of the body is not read
        return response

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return failed(422, str(schemas.line_of(error.errors())))

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody reads it

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> Response:
        line = f"{request.method} {request.url.path}: {error.detail.lower()}; GET / lists the routes"
        return failed(error.status_code, line)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        if is_out_of_memory(error):
            return failed(503, "out of memory; send fewer series or a shorter horizon")
        return failed(500, f"internal error ({type(error).__name__}); the server's log has the details")


BACKLOG = 1024
"""Maximum number of connections waiting to be accepted."""


def serve(settings: ServeConfig, console: Console) -> None:
    """Serve requests until Ctrl-C or SIGTERM, then finish those in progress.

    Raises:
        InputError: no readable checkpoint, or the address cannot be used.
    """
    with json_log():
        app = App(settings)
        with listening(settings.host, settings.port) as listener:
            config = uvicorn.Config(
                app.build(), log_config=None, access_log=False, server_header=False, ws="none", lifespan="off",
                timeout_graceful_shutdown=math.ceil(settings.timeout),
            )  # fmt: skip
            server = uvicorn.Server(config)
            # also before the server runs, and when it raises them again at its end
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, server.handle_exit)
            host, port = listener.getsockname()[:2]
            where = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            say(console, f"serving {', '.join(app.models.names)} at {where} (Ctrl-C stops)")
            server.run(sockets=[listener])
    say(console, "stopped")


def listening(host: str, port: int) -> socket.socket:
    """A socket that accepts connections.

    Raises:
        InputError: the address is unknown, in use or not permitted.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        reason, *_ = (getattr(error, "strerror", None) or str(error)).partition(" (while")
        raise InputError(f"host={host} port={port}: cannot listen there ({reason}); choose another") from error
