"""scripts/fuzz.py: generated files are read as written or refused; changes are detected, or have no effect."""

import importlib
import shutil
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT
from stores import read_series

N_ROUNDS, N_CASES = 10, 100


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("fuzz")


ROUNDS = [("dialect", seed, N_CASES) for seed in range(N_ROUNDS)]
ROUNDS += [("series", 0, 40), ("test_rows", 0, 8), ("checkpoint", 0, 60), ("flips", 0, 150), ("run_dir", 0, 60)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed", "cases"), ROUNDS)
def test_no_drawn_case_fails(fuzz: ModuleType, name: str, seed: int, cases: int) -> None:
    """Red if a file gives other times, values or columns than were written, a series gets another name or value, a
    choice depends on test rows, an entry is used before its kind was looked at, or a flipped bit is not seen."""
    done, wrong = fuzz.run_part(name, seed=seed, first=0, cases=cases, until=float("inf"))
    assert (done, wrong) == (cases, [])


def test_texts_that_are_used_as_they_are(fuzz: ModuleType, tmp_path: Path) -> None:
    """Red if a text of the right kind but with no meaning is used: a zone such as `a, newline, b` opened a file."""
    files = importlib.import_module("fuzz_files")
    whole, wrong = files.entries("best.safetensors"), []
    places = [("data", key) for key in ("time_col", "time_format", "timezone", "path")]
    for key in [*places, ("config", "dataset", "clock_col")]:
        for text in (value for value in files.REPLACEMENTS if isinstance(value, str)):
            files.write_model(tmp_path / "changed.safetensors", files.mutated(whole, key, text))
            try:
                files.use(tmp_path / "changed.safetensors")
            except files.InputError as error:
                wrong += [line] if (line := files.problem_of(error, f"{key}: {text!r}")) else []
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbers", "columns", "maps"])
@pytest.mark.parametrize("name", ["best.safetensors", "last.safetensors", "config.yaml", "run.json"])
def test_every_entry_may_be_missing_or_something_else(fuzz: ModuleType, name: str, kind: str, tmp_path: Path) -> None:
    """Red if one is used before its kind was looked at; drawn cases reach each entry only now and then."""
    files = importlib.import_module("fuzz_files")
    run = Path(shutil.copytree(files.finished_run(kind), tmp_path / "run"))
    (run / "metrics.json").unlink()
    whole = files.content_of(run, name)
    before = (run / name).read_bytes()
    rng, wrong = np.random.default_rng(0), []
    places = list(files.places(whole))
    if name == "last.safetensors":  # the rest is that of best.safetensors
        places = [keys for keys in places if keys[0] in ("state", "progress")]
    for i, keys in enumerate(places):
        deleted = files.mutated(whole, keys, files.DELETED), f"{keys}: deleted"
        drawn = files.replaced(whole, keys, rng, texts=not name.endswith(".safetensors"))
        # to begin again takes long: an entry of last.safetensors is deleted or replaced
        for changed, case in (deleted, drawn) if name != "last.safetensors" else ((deleted, drawn)[i % 2],):
            try:
                if name == "best.safetensors":
                    files.write_model(run / name, changed)
                    files.use(run / name, kind)
                else:
                    files.write(run, name, changed)
                    files.begin_to_resume(run)
            except files.InputError as error:
                wrong += [line] if (line := files.problem_of(error, case)) else []
            except Exception as error:
                wrong.append(f"{case}: {error!r}")
            (run / name).write_bytes(before)
    assert wrong == []


def test_the_oracle_of_flipped_bits(fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Red if other content counts as the same: without its digest a file loads with another number."""
    files = importlib.import_module("fuzz_files")
    content = files.entries("best.safetensors")
    name = next(name for name, weight in content["weights"].items() if weight.is_floating_point())
    content = content | {"weights": content["weights"] | {name: content["weights"][name] + 1e-3}}
    files.write_model(tmp_path / "other.safetensors", content)
    saved = files.checkpoint.load(files.finished_run() / "best.safetensors")
    assert files.is_same(saved, saved)
    assert not files.is_same(files.checkpoint.load(tmp_path / "other.safetensors"), saved)


def test_most_drawn_files_are_read(fuzz: ModuleType, tmp_path: Path) -> None:
    """Red if nothing is misread because nearly everything is refused."""
    drawing = importlib.import_module("fuzz_dialect")
    reading = importlib.import_module("informer.read.series")
    refused = 0
    for number in range(N_CASES):
        written = drawing.draw(np.random.default_rng([0, number]))
        path = tmp_path / "written.csv"
        path.write_bytes(written.content)
        try:
            read_series(path, reading.DatasetConfig())
        except reading.InputError:
            refused += 1
    assert refused < 0.7 * N_CASES


def test_a_misreading_is_told(fuzz: ModuleType, tmp_path: Path) -> None:
    """The oracle: a table that differs from the content of the file."""
    drawing = importlib.import_module("fuzz_dialect")
    times = pd.date_range("2024-03-04", periods=30, freq="D")
    content = "\n".join(["date,a", *(f"{time.date()},{i}.5" for i, time in enumerate(times))]).encode()
    late, meant = np.zeros(30, dtype=np.int64), np.arange(30.0)[:, None] + 0.5
    rng = np.random.default_rng(0)
    assert drawing.check(drawing.Written(content, times, meant, "", late), tmp_path, rng) is None
    for wrong in (
        drawing.Written(content, times, meant * 1000, "", late),
        drawing.Written(content, times + pd.Timedelta(days=1), meant, "", late),
        drawing.Written(content, times, np.hstack([meant, meant]), "", late),
    ):
        assert drawing.check(wrong, tmp_path, rng) is not None


def test_parts_and_their_failures(
    fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red if an exception ends the run, a case depends on those before it, or the status hides a failure."""
    drawn: list[int] = []

    def part(rng: np.random.Generator, folder: Path) -> str | None:
        assert not list(folder.iterdir())
        drawn.append(int(rng.integers(1_000_000)))
        if len(drawn) == 2:
            raise OSError("no such thing")
        return "odd" if len(drawn) == 3 else None

    monkeypatch.setitem(fuzz.PARTS, "made", part)
    assert fuzz.main(["--parts", "made", "--cases", "4"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("made: 4 cases, 2 wrong\n  --seed 0 --first 1 --cases 1 --parts made: Traceback")
    assert "--seed 0 --first 2 --cases 1 --parts made: odd" in out
    first = drawn[3]
    assert fuzz.main(["--parts", "made", "--first", "3", "--cases", "1"]) == 0
    assert drawn[4] == first
    assert fuzz.run_part("made", seed=0, first=0, cases=None, until=time.monotonic())[0] == 0
