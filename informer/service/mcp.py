"""Tools of an assistant over the Model Context Protocol: commands with `--json`, each in a process of its own."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp.server import MCPServer

import informer
from informer.base.errors import FileError, InputError
from informer.checkpoint.paths import resolve_latest
from informer.config.overrides import to_hydra
from informer.training.folder import RUNS

INSTRUCTIONS = """\
Forecast time series in CSV, parquet or Excel files. Call `inspect` first: it lists problems, and settings that repair
them. Report the error of a forecast only next to that of the baselines in the same answer, and say how much the
intervals covered. If `errors` is not empty, nothing was forecast; the lines say what to change."""

MOST_TEXT = 20_000
"""Characters of the forecast in an answer; the file has all."""


def server(folder: Path) -> MCPServer:
    """The server; its tools read and write only in `folder`."""
    tools = MCPServer("informer", version=informer.__version__, instructions=INSTRUCTIONS)
    root = folder.resolve()

    async def answer(command: str, files: dict[str, str], **settings: Any) -> dict[str, Any]:
        try:
            real(root, RUNS)  # to which the command writes
            paths = {key: inside(root, name, is_run=key == "checkpoint") for key, name in files.items()}
        except InputError as error:
            return {"command": command, "exit_status": 2, "errors": [str(error)], "code": error.code}
        # absolute paths and quoted values are read literally
        words = [f"{key}={path}" for key, path in paths.items()]
        words += [f"{key}={to_hydra(value)}" for key, value in settings.items() if value is not None]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "informer", command, *words, "--json"),  # -P: import nothing from the folder
            cwd=root,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            said, _ = await process.communicate()
        finally:
            if process.returncode is None:  # the client has cancelled the call
                process.kill()
        try:
            found: dict[str, Any] = json.loads(said)
        except ValueError:  # the process was ended
            ended = f"{command}: ended with status {process.returncode} before it answered"
            line = f"{ended}; send fewer rows, or run informer {command} in a terminal to see why"
            return {"command": command, "exit_status": process.returncode, "errors": [line], "code": "ended"}
        return found

    @tools.tool()
    async def inspect(file: str) -> dict[str, Any]:
        """What a file of time series contains, its problems, and the settings that repair them."""
        return await answer("inspect", {"input": file})

    @tools.tool()
    async def forecast(
        file: str,
        target: str | None = None,
        horizon: str | None = None,
        future: str | None = None,
        repair: bool = False,
    ) -> dict[str, Any]:
        """Forecast a file; scores next to baselines, coverage of intervals, and the rows of the forecast.

        Args:
            file: path of a CSV, parquet or Excel file with a time column.
            target: column to forecast; default: every numeric column.
            horizon: rows to forecast, or a span such as 2weeks.
            future: file with columns known ahead in the rows to forecast, such as prices or a weather forecast.
            repair: repair problems of the data.
        """
        files = {"input": file} | ({} if future is None else {"future": future})
        repairs = "auto" if repair else "none"
        found = await answer("forecast", files, target=target, horizon=horizon, repair=repairs)
        for each in found.get("forecasts", []):
            path = root / each["forecast"]
            if path.is_file():
                with path.open(encoding="utf-8") as text:
                    each["rows"] = text.read(MOST_TEXT)
        return found

    @tools.tool()
    async def explain(
        file: str,
        run: str | None = None,
        target: str | None = None,
        horizon: str | None = None,
        future: str | None = None,
        changes: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Why a forecast is what it is: what level, season, recent rows and each covariate contribute.

        Args:
            file: the history.
            run: the run of a trained model; default: the pretrained network.
            target: column to forecast with the pretrained network; default: every one that is not known ahead.
            horizon: rows to forecast, or a span; default: as far as columns are known ahead, or one pass of the model.
            future: file with columns known ahead, over the horizon.
            changes: what if: price=+10% or promo=1, of columns known ahead; the answer then has both forecasts.
        """
        files = {"input": file} | {key: each for key, each in (("checkpoint", run), ("future", future)) if each}
        settings = {"checkpoint": None if run else "zero", "target": target, "horizon": horizon, "set": list(changes)}
        return await answer("explain", files, **settings)

    @tools.tool()
    async def score(forecasts: str, actuals: str, history: str) -> dict[str, Any]:
        """Score a file of forecasts next to a seasonal naive: errors, skill with its interval, coverage."""
        return await answer("score", {"forecasts": forecasts, "actuals": actuals, "history": history})

    return tools


def inside(root: Path, name: str, *, is_run: bool = False) -> Path:
    """The real path of a file in the folder `root`, or of the folder of a run.

    Raises:
        InputError: there is none, or it, or a link in the run, leads out of the folder.
    """
    path = real(root, resolve_latest(real(root, name)))
    if is_run:
        for each in path.rglob("*"):
            real(root, each)
    if not (os.path.isdir if is_run else os.path.isfile)(path):
        kind = "folder of a run" if is_run else "file"
        raise FileError(f"{name}: expected a {kind} in the folder of this server, found none")
    return path


def real(root: Path, path: Path | str) -> Path:
    """The path without links.

    Raises:
        InputError: it is outside of the folder `root`.
    """
    try:
        found = Path(os.path.realpath(root / path))
    except ValueError as error:  # a NUL, or half a character
        raise FileError(f"{str(path)!r}: expected the name of a file, found {error}") from error
    if not found.is_relative_to(root):
        raise FileError(f"{path}: outside of the folder of this server; start informer mcp with folder=")
    return found
