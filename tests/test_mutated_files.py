"""A thousand damaged files: each gives a complete forecast or a one-line error."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import Trained, call

from informer import Forecaster
from informer.base.runtime import resource

N_FILES = 1000

Damage = Callable[[bytes, np.random.Generator], bytes]


def flipped(text: bytes, rng: np.random.Generator) -> bytes:
    """One to five bits turned."""
    content = bytearray(text)
    for place in rng.integers(len(content), size=rng.integers(1, 6)):
        content[place] ^= 1 << int(rng.integers(8))
    return bytes(content)


def cut(text: bytes, rng: np.random.Generator) -> bytes:
    """The file ends somewhere."""
    return text[: rng.integers(len(text))]


def rows_cut(text: bytes, rng: np.random.Generator) -> bytes:
    """Some lines are gone."""
    lines = text.splitlines(keepends=True)
    return b"".join(line for line in lines if rng.random() > 0.05)


def columns_dropped(text: bytes, rng: np.random.Generator) -> bytes:
    """A column is gone, in all lines or in some."""
    share = rng.choice([0.05, 1.0])
    column = rng.integers(5)
    rows = [line.split(b",") for line in text.splitlines()]
    return b"\n".join(
        b",".join(cell for i, cell in enumerate(row) if i != column or rng.random() > share) for row in rows
    )


def cell_replaced(text: bytes, rng: np.random.Generator) -> bytes:
    """Replace a cell, possibly of the header."""
    rows = [line.split(b",") for line in text.splitlines()]
    row = rows[rng.integers(len(rows))]
    cells = [
        b"1e308",
        b"-1e400",
        b"9" * 400,
        b"nan",
        b"inf",
        b"",
        b'"',
        b"0x1F",
        b"\xff",
        b"1,5",
        b"2024-13-45",
        b"\x00",
    ]
    row[rng.integers(len(row))] = cells[rng.integers(len(cells))]
    return b"\n".join(b",".join(row) for row in rows)


def binary(text: bytes, rng: np.random.Generator) -> bytes:
    """No text at all, some with the marks of a gzip or parquet file before it."""
    start = [b"", b"\x1f\x8b", b"PAR1", b"\xef\xbb\xbf", b"\xff\xfe"][rng.integers(5)]
    return start + rng.bytes(int(rng.integers(2000)))


def emptied(text: bytes, rng: np.random.Generator) -> bytes:
    """Nothing, blanks, or only the header."""
    return [b"", b"\n\n  \n", text.splitlines(keepends=True)[0]][rng.integers(3)]


DAMAGES: list[Damage] = [flipped, cut, rows_cut, columns_dropped, cell_replaced, binary, emptied]


@pytest.mark.slow
def test_a_damaged_file_ends_in_a_forecast_or_in_a_message(trained: Trained, folder: Path) -> None:
    """Red on an exception except InputError, a warning, an incomplete output, or an effect on a valid file."""
    rng = np.random.default_rng(0)
    lines = resource("data/sample.csv").read_bytes().splitlines(keepends=True)
    sound = b"".join(lines[:61])
    Path("in").mkdir()
    for i in range(N_FILES):
        Path(f"in/{i:04d}.csv").write_bytes(DAMAGES[i % len(DAMAGES)](sound, rng))
    Path("in/sound.csv").write_bytes(sound)
    outcome = call("predict", f"checkpoint={trained.run_dir}", "input=in", "output=out")
    assert (outcome.status, outcome.err) == (1, "")
    summary = pd.read_csv("out/summary.csv", keep_default_na=False)
    assert len(summary) == N_FILES + 1
    failed = summary["status"] == "error"
    assert 0 < failed.sum() < N_FILES
    assert (summary.loc[failed, "message"].str.len() > 0).all()
    assert not summary["message"].str.contains("\n|Traceback|this is a bug").any()
    written = {path.name for path in Path("out").iterdir()}
    assert written == {"summary.csv", *summary.loc[~failed, "output"]}
    for name in summary.loc[~failed, "output"]:
        forecast = pd.read_csv(Path("out", name))
        assert forecast.shape == (6, 5)
        assert np.isfinite(forecast.drop(columns=forecast.columns[0]).to_numpy()).all()
    table = pd.read_csv("in/sound.csv", parse_dates=["date"])
    expected = Forecaster.load(trained.run_dir, device="cpu").predict(table)
    predicted = pd.read_csv("out/sound.forecast.csv", parse_dates=["date"])
    pd.testing.assert_frame_equal(predicted, expected, check_dtype=False, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_file_leaves_nothing_behind(damage: Damage, trained: Trained, folder: Path) -> None:
    """The same through a job of one file: status 0 and a forecast, or status 2, lines of errors, and no output."""
    rng = np.random.default_rng(1)
    lines = resource("data/sample.csv").read_bytes().splitlines(keepends=True)
    for _ in range(5):
        Path("one.csv").write_bytes(damage(b"".join(lines[:61]), rng))
        outcome = call("predict", f"checkpoint={trained.run_dir}", "input=one.csv", "output=out", "plots=false")
        made = Path("out/one.forecast.csv")
        if outcome.status == 0:
            assert len(pd.read_csv(made)) == 6
            made.unlink()
        else:
            assert outcome.status == 2
            assert all(line.startswith("error: ") for line in outcome.err.splitlines())
            assert not made.exists()
