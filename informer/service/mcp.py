"""Tools of an assistant over the Model Context Protocol: commands with `--json`, each in a process of its own."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp.server import MCPServer

import informer
from informer.base.errors import InputError
from informer.config.fields import is_address

INSTRUCTIONS = """\
Forecast time series in CSV, parquet or Excel files. Call `inspect` first: it lists problems, and settings that repair
them. Report the error of a forecast only next to that of the baselines in the same answer, and say how much the
intervals covered. If `errors` is not empty, nothing was forecast; the lines say what to change."""

MOST_TEXT = 20_000
"""Characters of the forecast in an answer; the file has all."""


def server(folder: Path, budget: float) -> MCPServer:
    """The server; its tools read and write only in `folder`, and a forecast takes at most `budget` minutes."""
    tools = MCPServer("informer", version=informer.__version__, instructions=INSTRUCTIONS)

    async def answer(command: str, files: dict[str, str], *words: str) -> dict[str, Any]:
        try:
            paths = [f"{key}={inside(folder, name)}" for key, name in files.items()]
        except InputError as error:
            return {"command": command, "exit_status": 2, "errors": [str(error)]}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "informer", command, *paths, *words, "--json"),
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            said, _ = await process.communicate()
        finally:
            if process.returncode is None:  # the client has cancelled the call
                process.kill()
        found: dict[str, Any] = json.loads(said)
        return found

    @tools.tool()
    async def inspect(file: str) -> dict[str, Any]:
        """What a file of time series contains, its problems, and the settings that repair them."""
        return await answer("inspect", {"input": file})

    @tools.tool()
    async def forecast(
        file: str, target: str | None = None, horizon: str | None = None, model: str = "auto", repair: bool = False
    ) -> dict[str, Any]:
        """Forecast a file; scores next to baselines, coverage of intervals, and the rows of the forecast.

        Args:
            file: path of a CSV, parquet or Excel file with a time column.
            target: column to forecast; default: every numeric column.
            horizon: rows to forecast, or a span such as 2weeks.
            model: auto (chosen on held-out rows), or zero (no training, seconds).
            repair: repair problems of the data.
        """
        words = [f"model={model}", f"budget={budget:g}", f"repair={'auto' if repair else 'none'}"]
        words += [f"{key}={value}" for key, value in (("target", target), ("horizon", horizon)) if value is not None]
        found = await answer("forecast", {"input": file}, *words)
        for each in found.get("forecasts", []):
            path = folder / each["forecast"]
            if path.is_file():
                with path.open(encoding="utf-8") as text:
                    each["rows"] = text.read(MOST_TEXT)
        return found

    @tools.tool()
    async def explain(run: str, file: str, future: str | None = None, changes: Sequence[str] = ()) -> dict[str, Any]:
        """Why a forecast is what it is: what level, season, recent rows and each covariate contribute.

        Args:
            run: the run of a forecast.
            file: the history.
            future: columns known ahead, over the horizon.
            changes: what if: price=+10% or promo=1, of columns known ahead; the answer then has both forecasts.
        """
        files = {"checkpoint": run, "input": file} | ({} if future is None else {"future": future})
        return await answer("explain", files, *([f"set=[{','.join(changes)}]"] if changes else []))

    @tools.tool()
    async def score(forecasts: str, actuals: str, history: str) -> dict[str, Any]:
        """Score a file of forecasts next to a seasonal naive: errors, skill with its interval, coverage."""
        return await answer("score", {"forecasts": forecasts, "actuals": actuals, "history": history})

    return tools


def inside(folder: Path, name: str) -> Path:
    """The path of a file in the folder, relative to it.

    Raises:
        InputError: it leads out of the folder, or is an address.
    """
    path, root = (folder / name).resolve(), folder.resolve()
    if is_address(name) or not path.is_relative_to(root):
        raise InputError(f"{name}: outside of the folder of this server; start informer mcp with folder=")
    return path.relative_to(root)
