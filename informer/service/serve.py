"""`informer serve`: the HTTP application with its routes, limits on size and time and one-line errors; its web page
with the routes and a form to try it, which loads no other resources; and the server from start to end.
"""

import asyncio
import base64
import hashlib
import html
import json
import math
import re
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, final

import uvicorn
from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from rich.console import Console
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

import informer
from informer.base.console import logging_to, say
from informer.base.errors import InputError, is_out_of_memory, printable
from informer.checkpoint.paths import forecasting_checkpoint
from informer.config.commands import ServeConfig
from informer.inference.model import TrainedModel
from informer.read.cells import key_cells
from informer.read.frequency import Frequency, adjective, lasting
from informer.service.requests import CSV, FRAME, FUTURE, JSON, Refused, Service, media_type

TEMPLATE = Path(__file__).with_name("page.html")


def page_of(description: Mapping[str, Any], openapi: Mapping[str, Any]) -> tuple[str, str]:
    """The page, and a Content-Security-Policy that allows only its own script and style and requests to the service.

    Args:
        description: description of the model.
        openapi: OpenAPI schema of the routes.
    """
    text = TEMPLATE.read_text(encoding="utf-8")
    placeholders = {
        "title": html.escape(_names(description["targets"], 3)),
        "pred_len": str(description["pred_len"]),
        "facts": _facts(description),
        "routes": _routes(openapi),
        "example": _example(description),
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda place: placeholders[place[1]], text)
    hashes = {tag: _hash(re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[0]) for tag in ("script", "style")}
    policy = (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page, policy


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _facts(description: Mapping[str, Any]) -> str:
    """The description as rows of a table."""
    levels, step = description["intervals"], Frequency.parse(description["step"])
    ahead, history = (lasting(description[name], step) for name in ("pred_len", "seq_len"))
    rows = {
        "forecasts": f"{_names(description['targets'])}, {ahead} ahead ({description['pred_len']} rows)",
        "from": f"the last {history} ({description['seq_len']} rows) of {_names(description['inputs'])}",
        "rows": f"{adjective(step)} (step {description['step']})",
        "time column": description["time_column"],
        "series column": description["series_column"] or "none",
        "future covariates": _names(description["future_covariates"]),
        "intervals": "; ".join(
            [f"{levels[0]} to {levels[-1]} %" if levels else "none", *description["interval_notes"]]
        ),
        "limits": ", ".join(f"{name}={value:g}" for name, value in description["limits"].items()),
    }
    return "".join(
        f"<tr><th scope=row>{key}</th><td>{html.escape(str(value))}</td></tr>" for key, value in rows.items()
    )


def _names(names: list[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more or "none"


def _routes(openapi: Mapping[str, Any]) -> str:
    """Every route with its parameters and responses."""
    routes = []
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            lines = [
                (f"<code>{html.escape(each['name'])}</code>", each.get("description", ""))
                for each in route.get("parameters", [])
            ]
            if "requestBody" in route:
                lines.append(("body", route["requestBody"]["description"]))
            lines += [(status, each["description"]) for status, each in route["responses"].items()]
            rows = "".join(f"<tr><th scope=row>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in lines)
            title = f"<code>{method.upper()} {html.escape(path)}</code> {html.escape(route['summary'])}"
            routes.append(f"<details><summary>{title}</summary><table>{rows}</table></details>")
    return "".join(routes)


MOST_COLUMNS = 8
"""Columns in the example of a request."""


def _example(description: Mapping[str, Any]) -> str:
    """A shortened example of a JSON body: every column that a request needs, or the first of many, targets first."""
    columns: dict[str, list[Any]] = {description["time_column"]: ["2024-01-01 00:00", "..."]}
    if description["series_column"] is not None:
        cells = key_cells(description["series_column"], next(iter(description["series"]), "..."))
        columns |= {column: [cell, "..."] for column, cell in cells.items()}
    names = dict.fromkeys([*description["targets"], *description["inputs"]])
    columns |= {name: [1.0, "..."] for name in [*names][:MOST_COLUMNS]}
    if len(names) > MOST_COLUMNS:
        columns["..."] = ["..."]
    return html.escape(json.dumps({"frame": columns}))


MB = 1_000_000
KEYS = ("horizon", "intervals", "name")
"""Query parameters of a forecast."""

_COLUMNS = {"type": "object", "additionalProperties": {"type": "array", "items": {}}}
_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}}
FORECAST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A table with the history of the input columns, at least seq_len rows: CSV text, or JSON.",
        "content": {
            CSV: {"schema": {"type": "string"}},
            JSON: {
                "schema": {"type": "object", "required": [FRAME], "properties": {FRAME: _COLUMNS, FUTURE: _COLUMNS}}
            },
        },
    },
    "responses": {
        "200": {
            "description": "The forecast rows after the end of the table; same type as the body, unless Accept asks "
            "for the other.",
            "content": {
                JSON: {"schema": {"type": "object", "properties": {"forecast": _COLUMNS}}},
                CSV: {"schema": {"type": "string"}},
            },
        },
        **{
            status: {"description": what, "content": {JSON: {"schema": _ERROR}}}
            for status, what in {
                "408": "The body did not arrive in time.",
                "413": "The body is too large.",
                "415": "The body is neither CSV nor JSON.",
                "422": "The table or an option is invalid; the error says what, where, and what to do.",
                "503": "Too many requests in progress.",
                "504": "No response in time.",
            }.items()
        },
    },
}
"""OpenAPI entries that FastAPI cannot derive from the signature."""


def build_app(service: Service) -> FastAPI:
    """Create the application with the routes of a service."""

    app = FastAPI(
        title="informer", version=informer.__version__, docs_url=None, redoc_url=None,
        description="Forecasts of one trained model.",
    )  # fmt: skip

    @app.get("/health", summary="Whether the service is ready")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/describe", summary="What the model needs and returns, and the limits on requests")
    async def describe() -> dict[str, Any]:
        return service.description()

    @app.post("/forecast", summary="Forecast the rows after the end of a table", openapi_extra=FORECAST)
    async def forecast(
        request: Request,
        horizon: Annotated[str | None, Query(description="Rows, a span or the last date; default: pred_len.")] = None,
        intervals: Annotated[str, Query(description="Levels in percent, separated by commas: 80,95.")] = "",
        name: Annotated[str, Query(description="Name of a single series; selects its scaler, if it has its own.")] = "",
    ) -> Response:
        unknown = [key for key in request.query_params if key not in KEYS]
        if unknown:
            raise InputError(f"{unknown[0]}: unknown parameter, expected {', '.join(KEYS)}")
        content, kind = await _answer(service, request, horizon=horizon, levels=_levels(intervals), name=name)
        return Response(content, media_type=kind)

    pages = ("/", "/docs")
    page, policy = page_of(service.description(), app.openapi())
    for path in pages:
        app.get(path, include_in_schema=False)(lambda: HTMLResponse(page, headers={"Content-Security-Policy": policy}))
    _answer_errors(app)
    app.add_middleware(KnownHost, names=[service.settings.host, *service.settings.hosts])
    return app


@final
class KnownHost:
    """Refuses requests with another Host header, by which a web page could make a browser ask this service (DNS
    rebinding).

    Args:
        app: the application.
        names: names and addresses of the service besides those of this machine.
    """

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self._app, self._names = app, sorted({"localhost", "127.0.0.1", "[::1]", *map(_name, names)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "") if scope["type"] == "http" else self._names[0]
        if _name(host) in self._names:
            await self._app(scope, receive, send)
            return
        line = f"Host: expected {', '.join(self._names)}, found {host!r:.100}; other names: set hosts=[NAME]"
        await JSONResponse({"error": printable(line)}, 421)(scope, receive, send)


def _name(host: str) -> str:
    """The name or address in a Host header, or in a setting; addresses of IPv6 in brackets."""
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    return re.sub(r":\d*$", "", host.lower())


async def _answer(service: Service, request: Request, **options: Any) -> tuple[bytes, str]:
    """Read the body, forecast, and encode the response, within the time limit; returns content and type.

    `options` are those of `Service.answer`.
    """
    timeout, received = service.settings.timeout, False
    try:
        with service.admitted():
            async with asyncio.timeout(timeout):
                content, content_type = (
                    await _content(request, service.settings.max_mb), request.headers.get("content-type", "")
                )  # fmt: skip
                received = True
                accepted = [kind for kind in (CSV, JSON) if kind in request.headers.get("accept", "")]
                kind = accepted[0] if len(accepted) == 1 else media_type(content_type)[0]
                parts, answer = service.parts(content, content_type, kind=kind, **options), None
                while answer is None:  # a part of each request in turn; after the timeout there are no further parts
                    answer = await asyncio.get_running_loop().run_in_executor(service.thread, next, parts)
                return answer
    except TimeoutError as error:
        if not received:
            raise Refused(408, f"timeout: the body did not arrive within {timeout:g} s") from error
        raise Refused(504, f"timeout: no response within {timeout:g} s; send fewer series, or try again") from error


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


def _levels(text: str) -> tuple[int, ...]:
    """The levels of `intervals=80,95`."""
    levels = [level for level in text.strip("[]").split(",") if level.strip()]
    if not all(re.fullmatch(r"\s*[0-9]{1,2}\s*", level) for level in levels):
        raise InputError(f"intervals: expected whole percentages from 1 to 99, such as 80,95, found {text!r:.50}")
    return tuple(dict.fromkeys(map(int, levels)))


def _answer_errors(app: FastAPI) -> None:
    """Respond to every error with `{"error": line}`, with the line that commands print."""

    def failed(status: int, line: str) -> JSONResponse:
        return JSONResponse({"error": printable(line)}, status)

    @app.exception_handler(InputError)
    async def refused(request: Request, error: InputError) -> Response:
        response = failed(error.status if isinstance(error, Refused) else 422, str(error))
        if response.status_code == 503:
            response.headers["Retry-After"] = "1"
        if response.status_code in (408, 413, 504):
            response.headers["Connection"] = "close"  # the rest of the body is not read
        return response

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
        return failed(500, f"internal error ({type(error).__name__}); the server's output has the details")


BACKLOG = 1024
"""Maximum number of connections waiting to be accepted."""


def serve(settings: ServeConfig, console: Console) -> None:
    """Serve requests until Ctrl-C or SIGTERM, then finish those in progress.

    Raises:
        InputError: no readable checkpoint, or the address cannot be used.
    """
    with logging_to(console, quiet=True):
        model = TrainedModel.load(forecasting_checkpoint(settings.checkpoint), device=settings.device)
        service = Service(model, settings)
        app = build_app(service)
        with listening(settings.host, settings.port) as listener:
            server = uvicorn.Server(
                uvicorn.Config(
                    app,
                    log_config=None,
                    access_log=False,
                    server_header=False,
                    ws="none",
                    lifespan="off",
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
