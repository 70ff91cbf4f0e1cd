"""The report of a file, and its command: pasted into a shell it reads the file. `inspect.json` has what is printed.

`python tests/test_inspect.py --record` writes what is printed today. To add a call, write its words with `{}`.
"""

import json
import shlex
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from entry_points import ROOT, Outcome, call, done

STORED = Path(__file__).with_name("inspect.json")
CALLS: dict[str, dict[str, list[str]]] = json.loads(STORED.read_text(encoding="utf-8"))
"""Words of a call -> the exit status and the lines of standard output."""

QUICK = ["model=tiny", "trainer.max_steps=1", "trainer.tracker=[]", "run_dir=run"]
ROWS = 400


def table(n: int = ROWS, freq: str = "h", **columns: object) -> pd.DataFrame:
    random = np.random.default_rng(0)
    time = np.arange(n)
    values = {
        "load": 5 + np.sin(2 * np.pi * time / 24) + random.normal(size=n) * 0.05,
        "price": random.normal(size=n).round(3),
    }
    return pd.DataFrame({"date": pd.date_range("2021-01-01", periods=n, freq=freq), **values, **columns})


def season(step: str, rows: int) -> pd.DataFrame:
    times, wave = pd.date_range("2024-01-01", periods=960, freq=step), np.cos(2 * np.pi * np.arange(960) / rows)
    return pd.DataFrame({"time": times, "y": wave})


def dialect() -> bytes:
    frame = table().rename(columns={"load": "größe", "date": "tag"})
    text = frame.to_csv(index=False, sep=";", decimal=",", date_format="%d.%m.%Y %H:%M")
    return text.encode("latin-1")


def broken() -> pd.DataFrame:
    """Everything repairs fix, and two columns that none fixes."""
    frame = table(note=1.0).astype({"note": object}).assign(spike=1.0)
    frame.loc[[50, 51], "load"] = np.nan
    frame.loc[[7, 300], "note"] = "12 kW"
    frame.loc[9, "spike"] = np.inf
    frame = frame.drop(index=range(100, 105))
    frame = pd.concat([frame, frame.iloc[[30, 31]]])
    return frame.sample(frac=1, random_state=1)


def one_bad_cell() -> pd.DataFrame:
    frame = table().astype({"load": object})
    frame.loc[5, "load"] = "12 kW"
    return frame


def late(empty: int) -> pd.DataFrame:
    frame = table()
    frame.loc[: empty - 1, "price"] = np.nan
    return frame


def sensors() -> pd.DataFrame:
    frame = table()
    return frame.assign(**{f"sensor_{place}": frame["load"] for place in range(20)})


def odd_names() -> pd.DataFrame:
    frame = table(note="?").rename(columns={"load": "it's a $load, [kW]", "price": "007"}).astype({"note": object})
    frame.loc[3, "note"] = 1
    return frame


def series(*names: object, **columns: object) -> pd.DataFrame:
    """Series of a long table, with a column of another kind."""
    return pd.concat([table(300).assign(flag=np.arange(300) % 2, id=name, **columns) for name in names])


def items(sales: Callable[[np.random.Generator], np.ndarray]) -> pd.DataFrame:
    """Six series, which two columns name together."""
    rng, keys = np.random.default_rng(0), [(store, item) for store in (1, 2) for item in ("a", "b, c", "d")]
    rows = [table(280).assign(store=s, item=i, n=sales(rng) + 7 * k) for k, (s, i) in enumerate(keys)]
    return pd.concat(rows)[["date", "store", "item", "n"]]


def kinds() -> pd.DataFrame:
    """Categories, attributes of series, and text that is neither."""
    one = table(300).assign(kind=np.where(np.arange(300) % 3, "calm", "busy"))
    return pd.concat([one.assign(id=x, region=x[0], size=place) for place, x in enumerate(("n1", "n2", "s1"))])


def weather(changed: int) -> pd.DataFrame:
    """Hours, 50 of them twice with another text, and in the first `changed` of these with another number."""
    frame = table(600).assign(weather="clear")
    again = frame.iloc[10:60].assign(weather="rain")
    again.loc[again.index[:changed], "load"] += 1
    return pd.concat([frame, again]).sort_values("date", kind="stable", ignore_index=True)


def calendar() -> pd.DataFrame:
    times = pd.date_range("2021-01-01", periods=ROWS, freq="h")
    return table(year=times.year, month=times.month, hour=times.hour, day=0.5)


def overlapping() -> pd.DataFrame:
    """Two series that overlap in part."""
    parts = [table(300).assign(id="a"), table(450)[150:].assign(id="b")]
    return pd.concat(parts).assign(kind=["x", "y", "y"] * 200)


def years_without_holidays() -> pd.DataFrame:
    """Before those that the package of holidays knows, whose warning would be an error here."""
    return table(42, freq="D").assign(date=pd.date_range("2000-01-01", periods=42)).drop(index=range(1, 6))


FILES: dict[str, Callable[[], pd.DataFrame | bytes]] = {
    "sample.csv": lambda: (ROOT / "data/sample.csv").read_bytes(),
    "quarters.csv": lambda: season("15min", 96),
    "days.csv": lambda: season("D", 2),
    "x=1;y's.csv": dialect,
    "broken.csv": broken,
    "bad.csv": one_bad_cell,
    "gap.csv": lambda: table().drop(index=20),
    "late.csv": lambda: late(10),
    "empty.csv": lambda: late(267),
    "many.csv": sensors,
    "twice.csv": lambda: table(b=1.5, c=2.5).to_csv(index=False).replace("load", "price", 1).encode(),
    "short.csv": lambda: table(40),
    "brief.csv": lambda: table(223),
    "odd.csv": odd_names,
    "in/a.csv": table,
    "in/b.csv": lambda: table().drop(index=[20, 21]).iloc[::-1],
    "in/c [1].csv": lambda: table(300),
    "mixed/d.csv": lambda: table(freq="D"),
    "mixed/e.csv": lambda: b"a\0b",
    "mixed/f.csv": table,
    "named.csv": lambda: series("north", "south"),
    "numbered.csv": lambda: series(1, 2),
    "repeats.csv": lambda: series("north").iloc[[*range(300), 7]],
    "noise.csv": lambda: items(lambda rng: rng.integers(10, 60, 280)),
    "weekdays.csv": lambda: items(lambda rng: 1000 + np.arange(280) % 7),
    "kinds.csv": kinds,
    "category.csv": lambda: kinds()[:300].drop(columns=["id", "region", "size"]).assign(
        remark=[f"no. {i}" for i in range(300)]
    ),
    "same.csv": lambda: weather(0),
    "other.csv": lambda: weather(5),
    "holes.csv": lambda: table(600).drop(index=range(50, 90)),
    "few.csv": lambda: table(600).drop(index=range(50, 60)),
    "calendar.csv": calendar,
    "overlap.csv": overlapping,
    "2000.csv": years_without_holidays,
}  # fmt: skip


def printed(words: str) -> tuple[Outcome, list[str]]:
    """`informer inspect` of the files that the first word names, in the current folder."""
    pattern, *settings = shlex.split(words)
    for name, made in FILES.items():
        if name == pattern or name.startswith(f"{pattern}/") or fnmatch(name, pattern):
            Path(name).parent.mkdir(exist_ok=True)
            content = made()
            if isinstance(content, bytes):
                Path(name).write_bytes(content)
            else:
                content.to_csv(name, index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")  # of the terminal, in which tables are printed
        outcome = call("inspect", pattern, *settings)
    return outcome, outcome.out.splitlines()


@pytest.mark.parametrize("words", CALLS)
def test_what_is_printed(words: str, folder: Path) -> None:
    """Red if a line is another one, or if the settings of a command that is offered leave a problem."""
    outcome, lines = printed(words)
    assert (outcome.err, {str(outcome.status): lines}) == ("", CALLS[words])
    for line in lines:
        if line.startswith(("  informer train ", "  informer inspect ")):
            _, _, *settings = shlex.split(line)
            sizes = [word for word in shlex.split(words)[1:] if "_len=" in word]
            read = [word.replace("dataset.path=", "input=") for word in settings if word != "dataset=csv"]
            done("inspect", *read, *(word for word in sizes if word not in read))
    assert {path.name for path in folder.rglob("*.*")} <= {Path(name).name for name in FILES}


@pytest.mark.parametrize("name", ["broken.csv", "kinds.csv dataset.series_col=id"])
def test_the_command_trains(name: str, folder: Path) -> None:
    """Red if training finds another problem than the report, or needs other settings than those of the command."""
    _, lines = printed(f"{name} seq_len=24 label_len=12 pred_len=6")
    (line, *_) = (line for line in lines[::-1] if line.startswith("  informer train "))
    asked = shlex.split(line)[2:]
    if name == "broken.csv":
        refused = call("train", *asked[:2], *QUICK)
        assert (refused.status, refused.err.count("error: broken.csv, row ")) == (2, 6)
        assert not Path("run").exists()
    done("train", *asked, *QUICK)
    assert Path("run/best.safetensors").exists()


def test_the_command_for_several_series_has_what_repairs_them(folder: Path) -> None:
    """Newest rows first, and a holiday in letters next to zeros; red if the command that is printed is refused."""
    days = [*pd.date_range("2024-01-01", periods=60, freq="D").strftime("%Y-%m-%d")][::-1]
    rows = [f"{day},{shop},{i % 7 + shop},{'a' if i == 3 else 0}" for i, day in enumerate(days) for shop in (1, 2, 3)]
    Path("shops.csv").write_text("\n".join(["day,shop,sales,holiday", *rows]) + "\n")
    lines = call("inspect", "shops.csv").out.splitlines()
    words = shlex.split(lines[next(i for i, line in enumerate(lines) if line.startswith("forecast:")) + 1])
    done(*words[1:], "target=sales", "horizon=7", "output=out")
    assert len(pd.read_csv("out/forecasts/shops.forecast.csv")) == 3 * 7


def record() -> None:
    """Write what is printed today."""
    import os
    import tempfile

    found = {}
    for words in CALLS:
        with tempfile.TemporaryDirectory() as place:
            os.chdir(place)
            outcome, lines = printed(words)
            found[words] = {str(outcome.status): lines}
    STORED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
