"""Damaged model files, runs and data files: the command works, or ends with one line for each problem."""

import copy
import itertools
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from entry_points import ROOT, Outcome, Trained, call, done
from examples import examples
from forgery import content_of, write_forged
from hypothesis import given, note
from hypothesis import strategies as st
from torch import Tensor

SEEDS = st.integers(0, 2**32 - 1).map(np.random.default_rng)
BEST, LAST = "best.safetensors", "last.safetensors"
TINY = [
    "model=tiny", "model.d_model=4", "model.n_heads=1", "model.d_ff=4", "model.encoder_stacks=[1]", "label_len=6",
    "pred_len=6", "trainer.max_steps=2", "trainer.batch_size=32", "trainer.tracker=[]",
]  # fmt: skip
RUNS = {
    "numbers": [*TINY, "features=S", "target=load", "seq_len=24"],
    "columns": [
        *TINY, "seq_len=12", "targets=[load]", "past_covariates=[weather]", "future_covariates=[promo]",
        "dataset.series_col=shop", "dataset.categorical=[status]", "dataset.static_covariates=[region,size]",
        "dataset.holidays=[DE-BY,FR]", "dataset.calendar=[hour,weekday]", "model.series_embedding=2", "optim.ema=0.9",
    ],
    "maps": [
        "model=linear", "seq_len=24", "label_len=6", "pred_len=6", "features=M", "dataset.series_col=shop",
        "dataset.columns=[status,load]", "scaler.per_series=true", "non_negative=all", "trainer.tracker=[]",
    ],
}  # fmt: skip
"""One column of numbers; categories, holidays and an average of weights; linear maps."""


def table(kind: str) -> pd.DataFrame:
    """Daily waves of 260 hours: of one series, or of two shops with all kinds of columns."""
    rng, times = np.random.default_rng(0), pd.date_range("2024-01-01", periods=260, freq="h")
    load = np.sin(np.arange(260) / 24 * 2 * np.pi) + np.arange(260) / 100 + rng.normal(scale=0.1, size=260)
    if kind == "numbers":
        return pd.DataFrame({"date": times, "load": load})
    kinds: dict[str, list[Any]] = {"status": [1, 7], "promo": ["no", "tv"], "weather": ["sun", "rain"]}
    shop = pd.DataFrame({"date": times, "load": load + 2})
    shop = shop.assign(**{name: rng.choice(some, size=260) for name, some in kinds.items()})
    shops = {"north": ("hill", 10.0), "south": ("sea", 25.0)}
    return pd.concat([shop.assign(shop=name, region=region, size=size) for name, (region, size) in shops.items()])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file and a run of each kind, and what is known ahead."""
    top = tmp_path_factory.mktemp("runs")
    for kind, settings in RUNS.items():
        table(kind).to_csv(top / f"{kind}.csv", index=False)
        done("train", "dataset=csv", f"dataset.path={top / kind}.csv", *settings, f"run_dir={top / kind}")
    times = pd.date_range(table("columns")["date"].max(), periods=7, freq="h")[1:]
    ahead = [pd.DataFrame({"date": times, "shop": name, "promo": "tv"}) for name in ("north", "south")]
    pd.concat(ahead).to_csv(top / "ahead.csv", index=False)
    return top


def predicted(runs: Path, kind: str, model: Path, output: Path) -> Outcome:
    """A forecast of the file of a kind."""
    ahead = [f"future={runs / 'ahead.csv'}"] if kind == "columns" else []
    given = [f"checkpoint={model}", f"input={runs / kind}.csv", f"output={output}", "overwrite=true", *ahead]
    with np.errstate(all="ignore"):  # of a changed scale: numbers that single precision does not hold are refused
        return call("predict", *given)


def assert_works_or_says_why(outcome: Outcome) -> None:
    """Status 0, or 2 with short lines that all are errors; an exception or a warning has ended the test before."""
    lines = outcome.err.splitlines()
    assert outcome.status in (0, 2), outcome
    assert bool(lines) == (outcome.status == 2), outcome
    assert all(line.startswith("error: ") and len(line) < 750 for line in lines), outcome.err


DELETED = object()
REPLACEMENTS: list[Any] = [
    *(DELETED, None, True, 0, -1, 1, 10**30, -(2**63), 2.5, 1e308, math.nan, math.inf),
    *("", "x", "1", "\0", "a\nb", "${x}", "9" * 40, "999999999999999h"),
    *([], [1], ["a"], [[]], {}, {"a": 1}),
]
TENSORS: list[Callable[[Tensor], Any]] = [
    lambda x: x * math.nan,
    lambda x: x.to(torch.int8),
    lambda x: x.to(torch.complex64),
    lambda x: x.reshape(-1)[1:],
    lambda x: torch.zeros(2),
]
"""What else may take the place of a tensor."""


def places(node: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Key paths of all entries, containers included."""
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield (*above, key)
            yield from places(node[key], (*above, key))


def changed(content: Any, rng: np.random.Generator) -> Any:
    """A copy with one entry deleted or replaced; only the containers above it are copied."""
    keys = list(places(content))[int(rng.integers(sum(1 for _ in places(content))))]
    changed = node = copy.copy(content)
    for key in keys[:-1]:
        node[key] = copy.copy(node[key])
        node = node[key]
    old = node[keys[-1]]
    values = [*REPLACEMENTS, *(TENSORS if isinstance(old, Tensor) else ())]
    value = values[int(rng.integers(len(values)))]
    note(f"{keys}: {'deleted' if value is DELETED else value!r:.40}")
    if value is DELETED:
        del node[keys[-1]]
    else:
        node[keys[-1]] = value(old) if callable(value) else value
    return changed


@examples(quick=20, a_minute=100)
@given(rng=SEEDS, kind=st.sampled_from([*RUNS]))
def test_a_changed_entry_of_a_model_file(rng: np.random.Generator, kind: str, runs: Path, tmp_path: Path) -> None:
    """Red if an entry is used before its kind is checked; the digest is that of the changed file."""
    write_forged(tmp_path / "changed.safetensors", changed(content_of(runs / kind / BEST), rng))
    assert_works_or_says_why(predicted(runs, kind, tmp_path / "changed.safetensors", tmp_path / "out"))


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in itertools.pairwise("abcdefghij")
)
TEXTS = ["", "[]", "3", "null", "{", "a: b: c", "\0", "[" * 5000, '{"a":' * 5000, "x" * 2_000_000, BOMB, "\xff\xfe"]
OTHERS: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "nothing": lambda path: None,
}
"""What may be in the place of a file of a run, and how it is made."""


def spoil(path: Path, rng: np.random.Generator) -> None:
    """Turn a bit of a file, cut it, or put something else in its place."""
    content, how = path.read_bytes(), int(rng.integers(4))
    if how == 0:
        path.write_bytes(turned(content, rng))
    elif how == 1:
        path.write_bytes(content[: int(rng.integers(len(content)))])
    elif how == 2:
        path.write_text(TEXTS[int(rng.integers(len(TEXTS)))], encoding="latin-1")
    else:
        other = str(rng.choice([*OTHERS]))
        path.unlink()
        OTHERS[other](path)
        note(other)


@examples(quick=20, a_minute=60)
@given(
    rng=SEEDS, kind=st.sampled_from([*RUNS]), name=st.sampled_from(["config.yaml", "run.json", LAST, BEST, "train.log"])
)
def test_a_damaged_run(rng: np.random.Generator, kind: str, name: str, runs: Path, tmp_path: Path) -> None:
    """Red if a run waits for a pipe, unfolds a bomb or fails with a traceback, when it goes on or forecasts."""
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    run = Path(shutil.copytree(runs / kind, tmp_path / "run"))
    (run / "metrics.json").unlink()
    if name == "train.log" or rng.random() < 0.4:
        spoil(run / name, rng)
    elif name in (LAST, BEST):
        write_forged(run / name, changed(content_of(run / name), rng))
    else:
        load, dump = (json.loads, json.dumps) if name == "run.json" else (yaml.safe_load, yaml.safe_dump)
        (run / name).write_text(dump(changed(load((run / name).read_text()), rng)))
    if rng.random() < 0.3:
        assert_works_or_says_why(predicted(runs, kind, run, tmp_path / "out"))
    else:
        more = [] if kind == "maps" else ["trainer.max_steps=3"]
        with np.errstate(all="ignore"):
            assert_works_or_says_why(call("train", f"resume={run}", *more))


def turned(content: bytes, rng: np.random.Generator) -> bytes:
    """One to five bits turned."""
    found = bytearray(content)
    for place in rng.integers(len(found), size=rng.integers(1, 6)) if found else ():
        found[place] ^= 1 << int(rng.integers(8))
    return bytes(found)


CELLS = [b"1e308", b"-1e400", b"9" * 400, b"nan", b"inf", b"", b'"', b"0x1F", b"\xff", b"1,5", b"2024-13-45", b"\x00"]


def cell_replaced(text: bytes, rng: np.random.Generator) -> bytes:
    """Another cell somewhere, possibly in the header."""
    rows = [line.split(b",") for line in text.splitlines()]
    row = rows[int(rng.integers(len(rows)))]
    row[int(rng.integers(len(row)))] = CELLS[int(rng.integers(len(CELLS)))]
    return b"\n".join(b",".join(row) for row in rows)


def column_dropped(text: bytes, rng: np.random.Generator) -> bytes:
    """A column is gone, in all lines or in some."""
    share, column = rng.choice([0.05, 1.0]), rng.integers(5)
    rows = [line.split(b",") for line in text.splitlines()]
    kept = ([cell for i, cell in enumerate(row) if i != column or rng.random() > share] for row in rows)
    return b"\n".join(map(b",".join, kept))


DAMAGES: list[Callable[[bytes, np.random.Generator], bytes]] = [
    turned,
    cell_replaced,
    column_dropped,
    lambda text, rng: text[: int(rng.integers(len(text)))],
    lambda text, rng: b"".join(line for line in text.splitlines(keepends=True) if rng.random() > 0.05),
    lambda text, rng: [b"", b"\x1f\x8b", b"PAR1", b"\xef\xbb\xbf", b"\xff\xfe"][rng.integers(5)] + rng.bytes(900),
]


@examples(quick=30, a_minute=200)
@given(rng=SEEDS, damage=st.sampled_from(DAMAGES))
def test_a_damaged_data_file(rng: np.random.Generator, damage: Any, trained: Trained, tmp_path: Path) -> None:
    """Red if a forecast is incomplete or not finite, or an error leaves one behind."""
    lines = (ROOT / "data" / "sample.csv").read_bytes().splitlines(keepends=True)
    (tmp_path / "one.csv").write_bytes(damage(b"".join(lines[:61]), rng))
    made = tmp_path / "out" / "one.forecast.csv"
    outcome = call("predict", f"checkpoint={trained.run_dir}", f"input={tmp_path}/one.csv", f"output={made.parent}")
    assert_works_or_says_why(outcome)
    assert made.exists() == (outcome.status == 0)
    if made.exists():
        forecast = pd.read_csv(made, encoding_errors="replace")  # it has the encoding of the file
        assert len(forecast) == 6
        assert np.isfinite(forecast.select_dtypes("number").to_numpy()).all()
        shutil.rmtree(made.parent)
