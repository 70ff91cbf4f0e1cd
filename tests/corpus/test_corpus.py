"""Every folder next to this file is a case of reading: an input, its settings, and what must be read. See README.md.

`python tests/corpus/test_corpus.py --record [NAME ...]` writes what is read today as `expected.json` of these cases, or
of all, and what is said of them to `messages.json`; it prints the names of those that it changed. Cases with a fault
are left as they are.
"""

import ast
import itertools
import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from informer import InputError
from informer.data import read

CASES = sorted(folder.name for folder in Path(__file__).parent.iterdir() if (folder / "settings.json").is_file())

KEYS = {"dataset", "frame", "types", "index", "make", "fault", "pandas"}
"""Entries of `settings.json`, see README.md."""

MADE = {"file", "rows", "start", "step", "columns", "seed", "lines"}
"""Entries of `make`."""

MOST_BYTES = 3_000_000
"""Largest size of all cases together."""

MESSAGES = Path(__file__).parent / "messages.json"
"""What is said of cases: the codes of their problems and the lines, or what the log has. All wording of reading is
there, and in no other test."""

SETTING = re.compile(r"""dataset\.(\w+)=('[^']*'|"[^"]*"|\[[^\]]*\]|[^\s,;:)]+)""")
"""A setting that a problem proposes, with its value."""
PYTHON = re.compile(r"(pandas\.read_(?:csv|fwf)\(.*?to_csv\('(.*?)', index=False\))")
"""A line that writes a table anew, and the file that it writes."""

TOLERANCE = 1e-12
"""Largest difference of a value, relative to it or to the largest of its column."""

Plain = dict[str, Any]


class Log(logging.Handler):
    """Keeps the lines of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def listening() -> Iterator[list[str]]:
    """The lines that are logged within the block."""
    logger, log = logging.getLogger("informer"), Log()
    level = logger.level
    logger.addHandler(log)
    logger.setLevel("INFO")
    try:
        yield log.lines
    finally:
        logger.removeHandler(log)
        logger.setLevel(level)


def outcome(folder: Path, temporary: Path) -> tuple[Plain, Plain]:
    """What is read from a case, as `expected.json` holds it, and what is said of it, as `messages.json`."""
    settings = settings_of(folder)
    source = source_of(folder, settings, temporary)
    files = [path.name for path in source] if isinstance(source, list) and len(source) > 1 else []
    with listening() as log:
        try:
            series = read(source, **settings.get("dataset", {}))
            found, said = {"series": [plain_series(each) for each in series]}, {}
        except InputError as error:
            lines = str(error).split("\n")
            codes = dict.fromkeys(each.code for each in getattr(error, "problems", ()) or [error])
            found = {"problems": [problem(line, files) for line in lines]}
            said = {"codes": [*codes], "lines": [placeless(line, folder, temporary) for line in lines]}
    return found, said | ({"log": [placeless(line, folder, temporary) for line in log]} if log else {})


def placeless(line: str, folder: Path, temporary: Path) -> str:
    """A line without the folder of the case, and without what other libraries say, which changes with them."""
    line = line.replace(str(temporary), "TMP").replace(str(folder), "CASE")
    return re.sub(r"(cannot be read\b.*?) \(.*\)", r"\1 (...)", line)


@cache
def messages() -> dict[str, Plain]:
    """What is said, by case."""
    return json.loads(MESSAGES.read_text(encoding="utf-8")) if MESSAGES.is_file() else {}


def problem(line: str, files: list[str]) -> Plain:
    """Row, column and settings that a problem names, and the first of several files; not what it says in words."""
    named = sorted((line.index(file), file) for file in files if file in line)
    found: Plain = {"file": named[0][1]} if named else {}
    if row := re.search(r"\brow (\d+)", line):
        found["row"] = int(row[1])
    if column := re.search(r"\bcolumn ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", line):
        found["column"] = ast.literal_eval(column[1])
    if named := dict.fromkeys(re.findall(r"\bdataset\.(\w+)", line)):
        found["settings"] = sorted(named)
    return found


def plain_series(series: Any) -> Plain:
    """A series as `expected.json` holds it."""
    times = series.frequency.labels(series.timestamps)
    zone = None if isinstance(times[0], np.integer) else times.tz
    return {
        "name": series.name,
        "step": series.frequency.code,
        **({} if zone is None else {"timezone": str(zone)}),
        "times": shortened(times),
        "values": {name: [plain(x) for x in series.values[:, at]] for at, name in enumerate(series.columns)},
    }


def plain(value: float) -> float | int | None:
    """A number as it is written in JSON; null where it is missing."""
    if np.isnan(value):
        return None
    return int(value) if value == int(value) and abs(value) < 2**53 else float(value)


def shortened(times: pd.Index) -> list[str | int]:
    """Times as text or numbers; of more than four at equal distances the first two, "..." and the last."""
    is_numbered = not isinstance(times, pd.DatetimeIndex)
    are_equal = len(times) > 4 and len(np.unique(np.diff(times if is_numbered else times.as_unit("ns").asi8))) == 1
    shown = [int(t) if is_numbered else t.isoformat(sep=" ") for t in (times[[0, 1, -1]] if are_equal else times)]
    return [*shown[:2], "...", shown[2]] if are_equal else shown


def counts(times: list[Any]) -> np.ndarray:
    """Times as nanoseconds, and row numbers as they are; the opposite of `shortened`."""
    if "..." in times:
        first, second, last = counts([times[0], times[1], times[-1]])
        return np.arange(first, last + 1, second - first)
    if all(isinstance(time, int) for time in times):
        return np.array(times, np.int64)
    return pd.to_datetime(times, utc=True, format="ISO8601").as_unit("ns").asi8


def settings_of(folder: Path) -> Plain:
    """The settings of a case, in which every entry is a known one."""
    settings: Plain = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    unknown = [*{*settings} - KEYS, *{*settings.get("make", {})} - MADE]
    assert not unknown, f"{folder.name}/settings.json: expected entries of README.md, found {', '.join(unknown)}"
    return settings


def source_of(folder: Path, settings: Plain, temporary: Path) -> Any:
    """The input of a case: its files, a file that is made, or a frame."""
    files = sorted(path for path in folder.iterdir() if path.name not in ("settings.json", "expected.json"))
    if "make" in settings:
        (temporary / settings["make"]["file"]).write_text("\n".join(made_lines(settings["make"])) + "\n")
        files.append(temporary / settings["make"]["file"])
    assert files, f"{folder.name}: expected an input file"
    return frame(files[0], settings) if "frame" in settings else files


def made(make: Plain) -> tuple[pd.DatetimeIndex, np.ndarray]:
    """Times and values of a file that is made: [rows columns] numbers with three decimal places."""
    times = pd.date_range(make["start"], periods=make["rows"], freq=make["step"])
    random = np.random.default_rng(make["seed"])
    return times, random.integers(-10_000, 10_000, (make["rows"], len(make["columns"]))) / 1000


def made_lines(make: Plain) -> list[str]:
    """The lines of that file; `lines` gives some of them other text, by their number from 1."""
    times, values = made(make)
    lines = [",".join(["time", *make["columns"]])]
    lines += [f"{time},{','.join(map(str, row))}" for time, row in zip(times.astype(str), values.tolist(), strict=True)]
    for number, text in make.get("lines", {}).items():
        lines[int(number) - 1] = text
    return lines


def frame(file: Path, settings: Plain) -> Any:
    """A table of the library that `frame` names, with the `types` of its columns, and with an `index` in pandas."""
    import polars
    import pyarrow
    import pyarrow.parquet

    kind, types = settings["frame"], settings.get("types", {})
    if file.suffix == ".json":
        arrow = pyarrow.table(json.loads(file.read_text(encoding="utf-8")))
    else:
        arrow = pyarrow.parquet.read_table(file)
    if kind == "pandas":
        table = arrow.to_pandas().astype(types)
        return table.set_index(settings["index"]) if "index" in settings else table
    if kind == "pyarrow":
        for name, alias in types.items():
            place = arrow.column_names.index(name)
            arrow = arrow.set_column(place, name, arrow.column(name).cast(pyarrow.type_for_alias(alias)))
        return arrow
    table = polars.from_arrow(arrow).with_columns(
        polars.col(name).str.to_datetime() if alias == "Datetime" else polars.col(name).cast(getattr(polars, alias))
        for name, alias in types.items()
    )
    return {"polars": table, "polars-lazy": table.lazy()}[kind]


def differences(found: Plain, expected: Plain, settings: Plain) -> list[str]:
    """One line for each entry in which what was read differs from what must be read."""
    if "series" not in found or "series" not in expected:
        return [] if found == expected else [f"found {briefly(found)}, expected {briefly(expected)}"]
    if expected["series"] == "as made":
        times, values = made(settings["make"])
        columns = dict(zip(settings["make"]["columns"], values.T.tolist(), strict=True))
        name = Path(settings["make"]["file"]).stem
        expected = {"series": [{"name": name, "times": shortened(times), "values": columns}]}
    lines = []
    if (n := len(found["series"])) != (m := len(expected["series"])):
        lines.append(f"found {n} series, expected {m}")
    for own, right in zip(found["series"], expected["series"], strict=False):
        entries = [key for key in ("name", "step", "timezone") if key in right or (key in own and key == "timezone")]
        lines += [
            f"{right['name']}: {key} {own.get(key)!r}, expected {right.get(key)!r}"
            for key in entries
            if own.get(key) != right.get(key)
        ]
        lines += [f"{right['name']}: {line}" for line in different_rows(own, right)]
    return lines


def different_rows(own: Plain, right: Plain) -> list[str]:
    """The same for the times and values of one series."""
    found, expected = counts(own["times"]), counts(right["times"])
    if len(found) != len(expected):
        return [f"{len(found)} rows, expected {len(expected)}"]
    lines = []
    if (found != expected).any():
        row = int((found != expected).argmax())
        lines.append(f"{(found != expected).sum()} other times, the first in row {row} of the series")
    if [*own["values"]] != [*right["values"]]:
        return [*lines, f"columns {[*own['values']]}, expected {[*right['values']]}"]
    for column, numbers in right["values"].items():
        got, numbers = (np.array(each, np.float64) for each in (own["values"][column], numbers))
        if got.shape != numbers.shape:
            lines.append(f"{column}: {len(numbers)} expected values for {len(expected)} times")
            continue
        bound = TOLERANCE * np.nan_to_num(np.abs(numbers)).max(initial=0)
        are_wrong = ~np.isclose(got, numbers, rtol=TOLERANCE, atol=bound, equal_nan=True)
        if are_wrong.any():
            row = int(are_wrong.argmax())
            lines.append(
                f"{column}: {are_wrong.sum()} other values, such as {got[row]} for {numbers[row]} in row {row}"
            )
    return lines


def briefly(outcome: Plain) -> str:
    """What was read, without its rows."""
    if "problems" in outcome:
        return f"the problems {outcome['problems']}"
    return "series" if outcome["series"] == "as made" else f"the series {[each['name'] for each in outcome['series']]}"


def cases() -> list[Any]:
    """The names of the cases; one with a fault must fail, by what is read or by a warning of a library."""
    marked, version = [], int(pd.__version__.partition(".")[0])
    for name in CASES:
        settings = json.loads((Path(__file__).parent / name / "settings.json").read_text(encoding="utf-8"))
        marks = [pytest.mark.skipif(version < settings.get("pandas", 0), reason="pandas 2 has other times")]
        if "fault" in settings:
            marks.append(pytest.mark.xfail(raises=(AssertionError, Warning), strict=True, reason=settings["fault"]))
        marked.append(pytest.param(name, marks=marks))
    return marked


@pytest.mark.parametrize("name", cases())
def test_what_is_read(name: str, tmp_path: Path) -> None:
    """Red if series, columns, step, times or values are others, or a problem has another place, names other
    settings, has another code or other words."""
    folder = Path(__file__).parent / name
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    found, said = outcome(folder, tmp_path)
    lines = differences(found, expected, settings_of(folder))
    assert not lines, "\n".join(lines)
    assert said == messages().get(name, {})
    assert said.get("codes") != []


def proposals(line: str, given: Plain) -> list[Plain]:
    """The settings that a problem proposes, each by itself and with the next; not those that the case has."""
    found = list[Plain]()
    for key, word in SETTING.findall(line):
        value = word[1:-1].split(",") if word[0] == "[" else word.strip("'\"")
        if (own := given.get(key)) != [value] and value not in (own, str(own)):
            found.append({key: value})
    return found + [one | other for one, other in itertools.pairwise(found)]


def with_proposals() -> list[tuple[str, str]]:
    """A case and a line of each kind of problem that proposes settings."""
    kinds = dict[Any, tuple[str, str]]()
    for name in CASES:
        said, settings = messages().get(name, {}), settings_of(Path(__file__).parent / name)
        for line in said.get("lines", []) if "fault" not in settings else []:
            if proposed := proposals(line, settings.get("dataset", {})):
                kinds.setdefault((*said["codes"], *(key for each in proposed for key in each)), (name, line))
    return [*kinds.values()]


@pytest.mark.parametrize(("name", "line"), with_proposals())
def test_a_proposed_setting_cures(name: str, line: str, tmp_path: Path) -> None:
    """Red if no setting that a problem proposes removes it, or may be set so."""
    folder = Path(__file__).parent / name
    settings = settings_of(folder)
    source, given = source_of(folder, settings, tmp_path), settings.get("dataset", {})

    def cures(proposal: Plain) -> bool:
        try:
            read(source, **given | proposal)
        except InputError as error:  # of other places, which was not seen before
            lines = [placeless(each, folder, tmp_path) for each in str(error).split("\n")]
            return line not in lines and not any(each.startswith("dataset.") for each in lines)
        return True

    assert any(map(cures, proposals(line, given)))


@pytest.mark.parametrize("name", [name for name in CASES if PYTHON.search(str(messages().get(name)))])
def test_a_line_of_python_writes_what_is_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if the line fails, or what it writes is refused, or steps that were columns have other numbers."""
    (file,) = source_of(Path(__file__).parent / name, settings_of(Path(__file__).parent / name), tmp_path)
    (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    line, written = PYTHON.findall(messages()[name]["lines"][0])[0]
    exec(line, {"pandas": pd})
    names = re.findall(r"melt\(\['(.*?)'\]", line)
    series = read(written, series_col=names[0] if names else None, fill="linear")
    if names:
        np.testing.assert_array_equal([each.values[:, 0] for each in series], pd.read_csv(file, index_col=names))


def test_the_cases_stay_small() -> None:
    """Red if a large input is kept instead of made, or a name is not plain."""
    assert sum(path.stat().st_size for name in CASES for path in (Path(__file__).parent / name).rglob("*")) < MOST_BYTES
    assert [name for name in CASES if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


def written(found: Plain) -> str:
    """An outcome as JSON text, with a line for each column of a series and for each problem."""
    text = json.dumps
    if "problems" in found:
        lines = ",\n".join(f"  {text(each, ensure_ascii=False)}" for each in found["problems"])
        return f'{{"problems": [\n{lines}\n]}}\n'
    blocks = []
    for series in found["series"]:
        head = {key: value for key, value in series.items() if key not in ("times", "values")}
        columns = ",\n".join(f"    {text(k, ensure_ascii=False)}: {text(v)}" for k, v in series["values"].items())
        start = text(head, ensure_ascii=False)[:-1]
        blocks.append(f'  {start},\n   "times": {text(series["times"])},\n   "values": {{\n{columns}}}}}')
    return '{"series": [\n' + ",\n".join(blocks) + "\n]}\n"


def record(names: list[str], temporary: Path) -> None:
    """Write what is read from these cases where it differs from what they expect, or where they expect nothing yet."""
    recorded = {name: each for name, each in messages().items() if name in CASES}
    for name in names or CASES:
        folder = Path(__file__).parent / name
        settings, path = settings_of(folder), folder / "expected.json"
        if "fault" in settings:
            continue
        found, said = outcome(folder, temporary)
        recorded = {key: each for key, each in recorded.items() if key != name} | ({name: said} if said else {})
        if path.is_file() and not differences(found, json.loads(path.read_text(encoding="utf-8")), settings):
            continue
        path.write_text(written(found), encoding="utf-8")
        print(name, briefly(found))
    MESSAGES.write_text(
        json.dumps(dict(sorted(recorded.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    import tempfile

    if sys.argv[1:2] != ["--record"]:
        sys.exit("expected --record [NAME ...]")
    with tempfile.TemporaryDirectory() as place:
        record(sys.argv[2:], Path(place))
