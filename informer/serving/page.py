"""The service's web page: its routes, and a form to try it. It loads no other resources."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from informer.data.read.frequency import Frequency
from informer.data.read.step_words import adjective, lasting

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
        columns[description["series_column"]] = [*description["series"][:1], "..."]
    names = dict.fromkeys([*description["targets"], *description["inputs"]])
    columns |= {name: [1.0, "..."] for name in [*names][:MOST_COLUMNS]}
    if len(names) > MOST_COLUMNS:
        columns["..."] = ["..."]
    return html.escape(json.dumps({"frame": columns}))
