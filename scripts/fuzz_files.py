"""Runs and checkpoints with a changed entry, a flipped bit or a file replaced: they work, or are a one-line error.

For a changed entry the digest is recomputed to match; a flipped bit must be detected, or change nothing.
"""

import atexit
import copy
import hashlib
import itertools
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import yaml
from rich.console import Console
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from informer import Forecaster, checkpoint
from informer.base.errors import InputError, ReportError
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.restore import restore_model
from informer.config.training import TrainConfig
from informer.inference.export import description
from informer.training.folder import RunFolder
from informer.training.run import resume, settings_to_resume
from informer.training.state import State

TINY: dict[str, Any] = {
    "model": "tiny", "model.d_model": 4, "model.n_heads": 1, "model.d_ff": 4, "model.encoder_stacks": [1],
    "label_len": 6, "pred_len": 6, "trainer.max_steps": 2, "trainer.batch_size": 32,
}  # fmt: skip
"""Of the smallest run."""

COLUMNS: dict[str, Any] = {
    "seq_len": 12, "targets": ["load"], "past_covariates": ["weather"], "future_covariates": ["promo"],
    "dataset.series_col": "shop", "dataset.categorical": ["status"], "dataset.static_covariates": ["region", "size"],
    "dataset.holidays": ["DE-BY", "FR"], "dataset.calendar": ["hour", "weekday"], "model.series_embedding": 2,
    "optim.ema": 0.9,
}  # fmt: skip
MAPS: dict[str, Any] = {
    "model": "linear", "seq_len": 24, "label_len": 6, "pred_len": 6, "features": "M", "dataset.series_col": "shop",
    "dataset.columns": ["status", "load"], "scaler.per_series": True, "trainer.refit": True, "non_negative": "all",
}  # fmt: skip
RUNS = {"numbers": TINY | {"features": "S", "seq_len": 24}, "columns": TINY | COLUMNS, "maps": MAPS}
"""Settings by name: one column of numbers; categories, holidays and an average of weights; linear maps, refitted."""


SHOPS = {"north": ("hill", 10.0), "south": ("sea", 25.0)}
"""Region and size of the shops in `columns`."""


@cache
def finished_run(kind: str = "numbers") -> Path:
    """A finished run, the same for all cases; removed when the program ends."""
    place = tempfile.TemporaryDirectory()
    atexit.register(place.cleanup)
    folder = Path(place.name, "run")
    Forecaster(run_dir=folder, **RUNS[kind]).fit(table(kind))
    return folder


@cache
def table(kind: str) -> pd.DataFrame:
    """Daily waves of 260 hours: of one series, or of two shops with all kinds of columns."""
    times = pd.date_range("2024-01-01", periods=260, freq="h")
    load = np.sin(np.arange(260) / 24 * 2 * np.pi) + np.arange(260) / 100
    if kind == "numbers":
        return pd.DataFrame({"date": times, "load": load})
    rng = np.random.default_rng(0)
    load += rng.normal(scale=0.1, size=260)
    kinds: dict[str, list[Any]] = {"status": [1, 7], "promo": ["no", "tv"], "weather": ["sun", "rain"]}
    cells = {name: rng.choice(some, size=260) for name, some in kinds.items()}
    shop = pd.DataFrame({"date": times, "load": load + 2}).assign(**cells)
    return pd.concat([shop.assign(shop=name, region=region, size=size) for name, (region, size) in SHOPS.items()])


@cache
def horizon(kind: str) -> pd.DataFrame | None:
    """Future covariates for a forecast."""
    if kind != "columns":
        return None
    times = pd.date_range(table(kind)["date"].max(), periods=7, freq="h")[1:]
    return pd.concat([pd.DataFrame({"date": times, "shop": name, "promo": "tv"}) for name in ("north", "south")])


@cache
def entries(name: str, kind: str = "numbers") -> dict[str, Any]:
    """Content of a model file of the run, see `read_model`."""
    return read_model(finished_run(kind) / name)


DELETED = object()
REPLACEMENTS: list[Any] = [
    *(DELETED, None, True, 0, -1, 1, 10**30, -(2**63), 2.5, 1e308, math.nan, math.inf),
    *("", "x", "1", "\0", "a\nb", "${x}", "9" * 40, "999999999999999h"),
    *([], [1], ["a"], [[]], {}, {"a": 1}, torch.zeros(2), torch.ones(3, dtype=torch.int8)),
]
SPOILT: list[Callable[[Tensor], Tensor]] = [
    lambda x: x * math.nan,
    lambda x: x.to(torch.int8),
    lambda x: x.to(torch.complex64),
    lambda x: x.reshape(-1)[1:],
]
"""What else may take the place of a tensor."""

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in itertools.pairwise("abcdefghij")
)
TEXTS = ["", "[]", "3", "null", "{", "a: b: c", "\0", "[" * 5000, '{"a":' * 5000, "x" * 2_000_000, BOMB]
KINDS: list[str | bytes] = [*TEXTS, b"\xff\xfe\x00", "a folder", "a pipe", "a link to nothing", "nothing"]
"""What may be in the place of a text file of a run."""

Keys = tuple[Any, ...]


def places(node: Any, above: Keys = ()) -> Iterator[Keys]:
    """Key paths of all entries, containers included; elements of tuples are left out."""
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield (*above, key)
            yield from places(node[key], (*above, key))


def mutated(content: Any, keys: Keys, value: Any) -> Any:
    """A copy with another value at one key path; `value` may be a function of the present value.

    Only the containers on the path are copied; the copy shares all others with `content`.
    """
    changed = node = copy.copy(content)
    for key in keys[:-1]:
        node[key] = copy.copy(node[key])
        node = node[key]
    if value is DELETED:
        del node[keys[-1]]
    else:
        node[keys[-1]] = value(node[keys[-1]]) if callable(value) else value
    return changed


def draw(content: Any, rng: np.random.Generator, *, texts: bool = False) -> tuple[Any, str]:
    """A copy with one random change, and its description; `texts`: to be written as text, so no value is a tensor."""
    candidates = list(places(content))
    return replaced(content, candidates[rng.integers(len(candidates))], rng, texts=texts)


def replaced(content: Any, keys: Keys, rng: np.random.Generator, *, texts: bool = False) -> tuple[Any, str]:
    """The same, at this place."""
    node = content
    for key in keys:
        node = node[key]
    values = [*REPLACEMENTS, *(SPOILT if isinstance(node, Tensor) else ())]
    values = [value for value in values if not (texts and isinstance(value, Tensor))]
    value = values[rng.integers(len(values))]
    return mutated(content, keys, value), f"{keys}: {'deleted' if value is DELETED else value!r:.40}"


def spoil(path: Path, kind: str | bytes) -> None:
    """Replace a file by one of KINDS."""
    path.unlink(missing_ok=True)
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a link to nothing":
        path.symlink_to("nowhere")
    elif kind != "nothing":
        path.write_bytes(kind if isinstance(kind, bytes) else kind.encode())


def flipped(original: bytes, rng: np.random.Generator) -> bytes:
    """A copy with one bit changed."""
    content = bytearray(original)
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(content)


MOST_SIGNS = 700
"""Of a line that refuses a file."""


TENSORS = ("weights", "calibration", "state")
"""Entries with tensors."""


def read_model(path: Path) -> dict[str, Any]:
    """Header and tensors of a model file, without its digest."""
    with safe_open(path, framework="pt") as file:
        content: dict[str, Any] = json.loads(file.metadata()["informer"]) | {entry: {} for entry in TENSORS}
        for name in file.keys():  # noqa: SIM118
            entry, _, rest = name.partition(".")
            content[entry][rest] = file.get_tensor(name)
    del content["sha256"]
    return content


def write_model(path: Path, content: Mapping[str, Any]) -> None:
    """Write a model file with this content and its digest, also recorded in the facts of its run, if any."""
    tensors: dict[str, Tensor] = {}
    header = {key: content[key] for key in ("format",) if key in content} | {"sha256": "0" * 64}
    for key, value in content.items():
        parts = value if key in TENSORS and isinstance(value, dict) else {}
        arrays = {f"{key}.{name}": part.contiguous() for name, part in parts.items() if isinstance(part, Tensor)}
        tensors |= arrays
        if key not in TENSORS or len(arrays) < len(parts) or not isinstance(value, dict):
            header[key] = value
    text = json.dumps(header, separators=(",", ":"), default=lambda x: x.tolist() if isinstance(x, Tensor) else repr(x))
    raw = save(tensors, {"informer": text})
    digest = hashlib.sha256(raw).hexdigest()
    path.write_bytes(raw.replace(b"0" * 64, digest.encode(), 1))
    facts = path.with_name("run.json")
    if facts.exists():
        noted = json.loads(facts.read_text())
        facts.write_text(json.dumps(noted | {"digests": noted.get("digests", {}) | {path.name: digest}}))


def use(path: Path, kind: str = "numbers") -> None:
    """Load, describe and forecast the table of a run.

    Raises:
        InputError: the checkpoint is invalid.
    """
    with np.errstate(all="ignore"):  # of a changed scale: numbers that single precision does not hold are refused
        forecaster = Forecaster.load(path)
        assert repr(forecaster)
        description(forecaster.trained.checkpoint)
        forecaster.predict(table(kind), future=horizon(kind), intervals=80)


def problem_of(error: InputError, case: str) -> str | None:
    """What is wrong with an error message, if anything."""
    for line in error.lines if isinstance(error, ReportError) else [str(error)]:
        if "\n" in line or len(line) > MOST_SIGNS:
            return f"{case}: refused with {len(line)} signs: {line[:MOST_SIGNS]}"
    return None


def changed_entry(rng: np.random.Generator, folder: Path) -> str | None:
    """One entry deleted or replaced."""
    kind = str(rng.choice(list(RUNS)))
    name = "refit.safetensors" if kind == "maps" else "best.safetensors"
    content, case = draw(entries(name, kind), rng)
    case = f"{kind}: {case}"
    write_model(folder / "changed.safetensors", content)
    try:
        use(folder / "changed.safetensors", kind)
    except InputError as error:
        return problem_of(error, case)
    except Exception as error:
        raise AssertionError(case) from error
    return None


def flipped_bit(rng: np.random.Generator, folder: Path) -> str | None:
    """One bit of a model file."""
    kind = str(rng.choice(list(RUNS)))
    original, path = finished_run(kind) / "best.safetensors", folder / "flipped.safetensors"
    path.write_bytes(flipped(original.read_bytes(), rng))
    try:
        loaded = checkpoint.load(path)
    except InputError as error:
        return problem_of(error, kind)
    same = isis_equal(loaded, checkpoint.load(original))
    return None if same else f"{kind}: other content was loaded"


def isis_equal(first: Checkpoint, second: Checkpoint) -> bool:
    """Whether two checkpoints are equal, bit for bit; the oracle of the digest."""
    tensors = (is_equal(getattr(first, entry), getattr(second, entry)) for entry in TENSORS)
    return first.model_dump_json() == second.model_dump_json() and all(tensors)


def is_equal(first: Any, second: Any) -> bool:
    """Whether two contents of model files are equal, bit for bit."""
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(is_equal, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(is_equal(first[key], second[key]) for key in first)
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        alike = (first.dtype, first.shape) == (second.dtype, second.shape)
        return alike and first.numpy().tobytes() == second.numpy().tobytes()
    return type(first) is type(second) and (first == second or (first != first and second != second))


WHOLLY = 25
"""One case in so many is resumed to its end, which takes a hundred times as long."""


def changed_run(rng: np.random.Generator, folder: Path) -> str | None:
    """One entry of one file deleted or replaced, or a file that is something else."""
    kind = str(rng.choice(list(RUNS)))
    run = Path(shutil.copytree(finished_run(kind), folder / "run"))
    (run / "metrics.json").unlink()
    case = f"{kind}: {_spoil(run, rng) if rng.random() < 0.3 else _change(run, rng)}"
    try:
        if rng.random() < 0.3:
            use(run, kind)
        elif rng.random() < 1 / WHOLLY:
            resume(RunFolder.of(run), Console(quiet=True))
        else:
            begin_to_resume(run)
    except InputError as error:
        return problem_of(error, case)
    except Exception as error:
        raise AssertionError(case) from error
    return None


def _change(run: Path, rng: np.random.Generator) -> str:
    name = str(rng.choice(["config.yaml", "run.json", "last.safetensors", "last.safetensors"]))
    changed, case = draw(content_of(run, name), rng, texts=name != "last.safetensors")
    write(run, name, changed)
    return f"{name}: {case}"


def content_of(run: Path, name: str) -> Any:
    """Content of a file of a run: a model file, run.json or config.yaml."""
    if name.endswith(".safetensors"):
        return read_model(run / name)
    return (json.loads if name == "run.json" else yaml.safe_load)((run / name).read_text())


def write(run: Path, name: str, changed: Any) -> None:
    """Write other content, with a matching digest."""
    if name.endswith(".safetensors"):
        write_model(run / name, changed)
    else:
        (run / name).write_text((json.dumps if name == "run.json" else yaml.safe_dump)(changed))


def _spoil(run: Path, rng: np.random.Generator) -> str:
    path = rng.choice(sorted(run.iterdir()))
    if path.is_file() and rng.random() < 0.5:
        content = path.read_bytes()
        path.write_bytes(flipped(content, rng) if rng.random() < 0.5 else content[: rng.integers(len(content))])
        return f"{path.name}: damaged"
    kind = KINDS[rng.integers(len(KINDS))]
    spoil(path, kind)
    return f"{path.name}: {kind[:20]!r}"


def begin_to_resume(run: Path) -> None:
    """Do what `resume=run` does before training, and one step.

    Raises:
        InputError: the run is invalid.
    """
    folder = RunFolder.of(run)
    folder.check_files()
    last = folder.last()
    settings = settings_to_resume(folder, last, TrainConfig(), ())
    folder.resume(settings, {})
    if last is not None:
        _step(settings, last)


def _step(settings: TrainConfig, last: Checkpoint) -> None:
    state = State(settings, restore_model(last).train(), last)
    for parameter in state.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    state.optimizer.step_while_finite(torch.tensor(1.0))
    finite = all(parameter.isfinite().all() for parameter in state.model.parameters())
    assert finite, "a step made a number that is none"
    assert state.validated(0.5, 1) in (True, False)
