"""The HTTP application: routes, limits on size and time, one-line errors."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

import informer
from informer.errors import InputError, is_out_of_memory, printable
from informer.serving.batching import Options
from informer.serving.bodies import CSV, FRAME, FUTURE, JSON, Body, UnknownType
from informer.serving.page import page_of
from informer.serving.service import Busy, Service

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


class Refused(Exception):
    """Ends a request with this status and error line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


def build_app(service: Service) -> FastAPI:
    """Create the application with the routes of a service."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="informer", version=informer.__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
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
        horizon: Annotated[int | None, Query(description="Rows to forecast; default: pred_len.")] = None,
        intervals: Annotated[str, Query(description="Levels in percent, separated by commas: 80,95.")] = "",
        name: Annotated[str, Query(description="Name of a single series; selects its scaler, if it has its own.")] = "",
    ) -> Response:
        unknown = [key for key in request.query_params if key not in KEYS]
        if unknown:
            raise InputError(f"{unknown[0]}: unknown parameter, expected {', '.join(KEYS)}")
        content, kind = await _answer(service, request, Options(horizon=horizon, levels=_levels(intervals)), name)
        return Response(content, media_type=kind)

    pages = ("/", "/docs")
    page, policy = page_of(service.description(), app.openapi())
    for path in pages:
        app.get(path, include_in_schema=False)(lambda: HTMLResponse(page, headers={"Content-Security-Policy": policy}))
    _answer_errors(app)
    return app


async def _answer(service: Service, request: Request, options: Options, name: str) -> tuple[bytes, str]:
    """Read the body, forecast, and encode the response, within the time limit; returns content and type."""
    timeout, received = service.settings.timeout, False
    try:
        async with service.admitted(), asyncio.timeout(timeout):
            body = Body.of(await _content(request, service.settings.max_mb), request.headers.get("content-type", ""))
            received = True
            return await service.answer(body, options, name=name, kind=_wanted(request, body))
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


def _wanted(request: Request, body: Body) -> str:
    """Content type of the response."""
    accepted = request.headers.get("accept", "")
    named = [kind for kind in (CSV, JSON) if kind in accepted]
    return named[0] if len(named) == 1 else body.type


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
        if isinstance(error, Busy):
            return JSONResponse({"error": str(error)}, 503, headers={"Retry-After": "1"})
        return failed(415 if isinstance(error, UnknownType) else 422, str(error))

    @app.exception_handler(Refused)
    async def over_a_limit(request: Request, error: Refused) -> Response:
        response = failed(error.status, str(error))
        response.headers["Connection"] = "close"  # the rest of the body is not read
        return response

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return failed(422, f"{first['loc'][-1]}: expected a whole number, found {first.get('input')!r:.50}")

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> Response:
        line = f"{request.method} {request.url.path}: {error.detail.lower()}; GET / lists the routes"
        return failed(error.status_code, line)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        if is_out_of_memory(error):
            return failed(503, "out of memory; send fewer series or a shorter horizon")
        return failed(500, f"internal error ({type(error).__name__}); the server's output has the details")
