"""One file cannot stop a job of many: what cannot be read, or never ends, is a line of the summary."""

import csv
import gzip
import io
import os
import socket
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, Trained, call, done, refusal
from forgery import content_of, write_forged

from informer import InputError
from informer.data import read


@pytest.fixture
def good(folder: Path) -> Path:
    """A folder with one valid file."""
    Path("in").mkdir()
    rows = pd.read_csv(ROOT / "data/sample.csv", nrows=60)
    rows.to_csv("in/good.csv", index=False)
    return Path("in")


def summary(path: str = "out/summary.csv") -> dict[str, dict[str, str]]:
    csv.field_size_limit(131_072)  # as it is unless a program changes it
    with Path(path).open(newline="") as file:
        return {Path(row["file"]).name: row for row in csv.DictReader(file)}


@pytest.mark.skipif(os.name == "nt", reason="no such files there")
def test_what_is_no_regular_file_is_a_line(good: Path, trained: Trained) -> None:
    """A reader of the pipe would wait forever; a pattern once skipped such files without a message."""
    os.mkfifo(good / "pipe.csv")
    (good / "zero.csv").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("in/socket.csv")
        for output, wanted in (("out", "in"), ("again", "in/*.csv")):
            outcome = call("predict", f"checkpoint={trained.run_dir}", f"input={wanted}", f"output={output}")
            assert outcome.status == 1, outcome.err
            rows = summary(f"{output}/summary.csv")
            assert sorted((name, row["status"]) for name, row in rows.items()) == [
                *(("good.csv", "ok"), ("pipe.csv", "error"), ("socket.csv", "error"), ("zero.csv", "error"))
            ]
            assert "expected a regular file, found a pipe" in rows["pipe.csv"]["message"]
            assert "expected a regular file, found a device" in rows["zero.csv"]["message"]
    for arguments in (["input=/dev/zero"], ["input=in/good.csv", "future=/dev/zero"]):
        refusal("predict", f"checkpoint={trained.run_dir}", *arguments, "output=one")
    assert "/dev/zero: expected a regular file, found a device" in refusal("train", "/dev/zero")


def test_one_endless_line_is_a_line_of_the_summary(good: Path, trained: Trained) -> None:
    """70 MB in one line, packed to 70 KB: as 3 GB would, it passes the limit of a line before memory is short."""
    piece = b"1" * 10_000_000
    with gzip.open(good / "bomb.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"date,a\n2024-01-01,")
        for _ in range(7):
            file.write(piece)
    arguments = [f"checkpoint={trained.run_dir}", "input=in", "output=out", "dataset.max_ratio=2000"]
    assert call("predict", *arguments).status == 1
    assert "bomb.csv.gz: a line of more than 64 MB" in summary()["bomb.csv.gz"]["message"]


def table(n: int, end: str = "\n") -> bytes:
    rows = pd.DataFrame({"date": pd.date_range("2024", periods=n, freq="h"), "a": np.arange(n) % 7})
    return rows.to_csv(index=False, lineterminator=end).encode()


@pytest.mark.parametrize(("packed", "end"), [(False, "\r\n"), (False, "\r"), (True, "\n")])
def test_the_limit_of_a_line_counts_lines(packed: bool, end: str, tmp_path: Path) -> None:
    """Lines of 22 bytes in pieces of a megabyte: red where what is left of a line is carried wrongly."""
    path, content = tmp_path / "a.csv", table(100_000, end)
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    (series,) = read(path, max_line_mb=25e-6)
    np.testing.assert_array_equal(series.values[:, 0], np.arange(100_000) % 7)
    longer = content + b"2" * 30
    path.write_bytes(gzip.compress(longer, 1) if packed else longer)
    with pytest.raises(InputError, match=r"a line of more than 2\.5e-05 MB"):
        read(path, max_line_mb=25e-6)


@pytest.mark.parametrize("packed", [False, True])
def test_the_limit_of_a_file_counts_what_is_unpacked(packed: bool, tmp_path: Path) -> None:
    path, content = tmp_path / "a.csv", table(2000)
    path.write_bytes(gzip.compress(content) if packed else content)
    read(path, max_file_mb=len(content) / 1e6)
    with pytest.raises(InputError, match=r"a\.csv: more than .* MB uncompressed; .* dataset.max_file_mb"):
        read(path, max_file_mb=(len(content) - 1) / 1e6)


def test_a_long_cell_does_not_break_resuming(good: Path, trained: Trained) -> None:
    """Also where an earlier version wrote a message that no reader of CSV takes."""
    lines = (good / "good.csv").read_bytes().splitlines()
    lines[-1] = lines[-1].rpartition(b",")[0] + b"," + b"x" * 100_000
    (good / "long.csv").write_bytes(b"\n".join(lines))
    arguments = [f"checkpoint={trained.run_dir}", "input=in", "output=out", "resume=true"]
    assert call("predict", *arguments).status == 1
    assert len(summary()["long.csv"]["message"]) <= 2000
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(
        [summary()["long.csv"][key] if key != "message" else "x" * 200_000 for key in summary()["long.csv"]]
    )
    with Path("out/summary.csv").open("a") as file:
        file.write(text.getvalue())
    outcome = call("predict", *arguments)
    assert outcome.status == 1, outcome.err
    assert "(1 of them already done)" in outcome.out


def test_a_model_does_not_lower_or_raise_the_limits(good: Path, trained: Trained) -> None:
    """They are the user's; a checkpoint may be from anyone."""
    content = content_of(trained.run_dir / "best.safetensors")
    content["config"]["dataset"]["max_cells"] = 1
    write_forged(Path("forged.safetensors"), content)
    done("predict", "checkpoint=forged.safetensors", "input=in/good.csv", "output=out")
