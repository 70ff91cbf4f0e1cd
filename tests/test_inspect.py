"""The report of a file, and its command: pasted into a shell it trains."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, Outcome, call, done

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


def command(outcome: Outcome) -> list[str]:
    """The arguments of the command that is offered."""
    (line,) = (line for line in outcome.out.splitlines() if line.startswith("  informer train "))
    return shlex.split(line)[2:]


def trains(outcome: Outcome) -> None:
    done("train", *command(outcome), *QUICK)
    assert Path("run/best.safetensors").exists()


def is_read(outcome: Outcome) -> None:
    """The settings of the command leave no problem."""
    _, path, *settings = command(outcome)
    done("inspect", path.replace("dataset.path=", "input="), *settings)


def test_a_sound_file(folder: Path) -> None:
    outcome = done("inspect", str(ROOT / "data/sample.csv"))
    lines = outcome.out.splitlines()
    assert lines[:3] == [
        "file:     sample.csv, 6,000 rows, 5 columns",
        "time:     date, 2023-01-02 00:00:00 to 2023-09-08 23:00:00, hourly (step h)",
        "columns:  temperature, visitors, price, demand",
    ]
    # a day and a week are what the sample is made of
    week, day = "7 days (168 rows, correlation 0.98)", "24 hours (24 rows, correlation 0.64)"
    assert f"seasons:  visitors repeats every {week}, {day}" in lines
    assert "problems: none" in lines
    assert command(outcome) == ["dataset=csv", f"dataset.path={ROOT / 'data/sample.csv'}"]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("step", "rows", "written"), [("15min", 96, "24 hours (96 rows"), ("D", 2, "2 days (2 rows")])
def test_a_season_is_written_in_the_largest_unit(folder: Path, step: str, rows: int, written: str) -> None:
    """Red if quarters of an hour are written in minutes, in wrong hours, or if the shortest season is not found."""
    times, wave = pd.date_range("2024-01-01", periods=960, freq=step), np.cos(2 * np.pi * np.arange(960) / rows)
    pd.DataFrame({"time": times, "y": wave}).to_csv("f.csv", index=False)
    assert f"seasons:  y repeats every {written}, correlation " in done("inspect", "f.csv").out


def test_another_dialect_needs_no_word(folder: Path) -> None:
    frame = table().rename(columns={"load": "größe", "date": "tag"})
    frame.assign(tag=frame["tag"].dt.strftime("%d.%m.%Y %H:%M")).to_csv(
        "x=1;y's.csv", index=False, sep=";", decimal=",", encoding="latin-1"
    )
    outcome = done("inspect", "x=1;y's.csv")
    assert "format:   separator ';', decimal mark ',', encoding latin-1" in outcome.out
    is_read(outcome)


def broken() -> pd.DataFrame:
    """Everything repairs fix, and two columns that none fixes."""
    frame = table(note=1.0).astype({"note": object}).assign(spike=1.0)
    frame.loc[[50, 51], "load"] = np.nan
    frame.loc[[7, 300], "note"] = "12 kW"
    frame.loc[9, "spike"] = np.inf
    frame = frame.drop(index=range(100, 105))
    frame = pd.concat([frame, frame.iloc[[30, 31]]])
    return frame.sample(frac=1, random_state=1)


def test_all_problems_are_listed_and_the_command_fixes_them(folder: Path) -> None:
    broken().to_csv("broken.csv", index=False)
    outcome = call("inspect", "broken.csv")
    assert (outcome.status, outcome.err) == (2, "")
    assert "problems: 6" in outcome.out.splitlines()
    places = [
        "(2 of 397 rows repeat a time, ", "expected a time after", "5 rows are missing",
        "column 'note': expected a number",
    ]  # fmt: skip
    for part in [
        *places,
        "column 'spike': expected a number, found 'inf'",
        "column 'load': expected a number, found an",
    ]:
        assert sum(part in line and line.startswith("broken.csv, row ") for line in outcome.out.splitlines()) == 1, part
    asked = command(outcome)
    assert {"dataset.sort=true", "dataset.duplicates=first", "dataset.fill=linear"} < set(asked)
    assert "dataset.columns=[load,price]" in asked
    refused = call("train", *asked[:2], *QUICK)
    assert (refused.status, refused.err.count("error: broken.csv, row ")) == (2, 6)
    assert not Path("run").exists()
    trains(outcome)


def test_a_column_that_the_command_leaves_out_is_named(folder: Path) -> None:
    """Red if one bad cell costs a column without a word, or a column that is asked for is left out."""
    frame = table().astype({"load": object})
    frame.loc[5, "load"] = "12 kW"
    frame.to_csv("bad.csv", index=False)
    outcome = call("inspect", "bad.csv")
    assert "dataset.columns=[price]" in command(outcome)
    assert "fix:      in the commands below; they leave out load: fix the cells named above to keep them" in outcome.out
    assert "informer train" not in call("inspect", "bad.csv", "target=load").out


def test_what_repairs_did_is_reported(folder: Path) -> None:
    """Red if a setting of 1 is reported as `true`."""
    table().drop(index=20).to_csv("gap.csv", index=False)
    outcome = done("inspect", "gap.csv", "dataset.fill=zero", "dataset.max_gap=1")
    assert "gap.csv: fill=zero inserted 1 missing row, first 2021-01-01 20:00:00 before row 22" in outcome.out
    assert command(outcome)[2:] == ["dataset.fill=zero", "dataset.max_gap=1"]


@pytest.mark.parametrize(("empty", "fix"), [(10, "dataset.fill=mask"), (267, "dataset.columns=[load]")])
def test_a_column_that_begins_late_keeps_its_gap_unless_it_is_mostly_empty(empty: int, fix: str, folder: Path) -> None:
    """Red if ten missing rows cost a whole column."""
    frame = table()
    frame.loc[: empty - 1, "price"] = np.nan
    frame.to_csv("late.csv", index=False)
    outcome = call("inspect", "late.csv")
    assert command(outcome)[2:] == [fix]
    is_read(outcome)


def test_columns_with_the_same_seasons_are_grouped(folder: Path) -> None:
    frame = table()
    for place in range(20):
        frame.insert(1 + place, f"sensor_{place}", frame["load"])
    frame.to_csv("many.csv", index=False)
    lines = call("inspect", "many.csv").out.splitlines()
    assert any(" and 5 more repeat every 24 hours (24 rows, " in line for line in lines)


def test_repeated_names_name_the_columns_without_them(folder: Path) -> None:
    table(b=1.5, c=2.5).to_csv("f.csv", index=False)
    text = Path("f.csv").read_text()
    Path("f.csv").write_text(text.replace("load", "price", 1))
    outcome = call("inspect", "f.csv")
    line = "give each column price a name of its own in row 1, or leave them out: dataset.columns=[b,c]"
    assert line in outcome.out
    done("inspect", "f.csv", "dataset.columns=[b,c]")


@pytest.mark.parametrize("n", [40, 223])
def test_few_rows_get_short_windows(n: int, folder: Path) -> None:
    table(n).to_csv("short.csv", index=False)
    outcome = call("inspect", "short.csv")
    assert outcome.status == 2
    assert f"short: {n} rows are too few for seq_len=96, pred_len=24" in outcome.out
    assert "val needs" in outcome.out
    is_read(outcome)


def test_names_of_columns_that_mean_something_to_a_shell(folder: Path) -> None:
    names = {"load": "it's a $load, [kW]", "price": "007"}
    frame = table(note="?").rename(columns=names).astype({"note": object})
    frame.loc[3, "note"] = 1
    frame.to_csv("odd.csv", index=False)
    outcome = call("inspect", "odd.csv")
    assert outcome.status == 2
    trains(outcome)


@pytest.fixture
def many(folder: Path) -> list[str]:
    """A folder with a valid file, one that needs repairs, a short one; returns the names of its files."""
    Path("in").mkdir()
    table().to_csv("in/a.csv", index=False)
    table().drop(index=[20, 21]).iloc[::-1].to_csv("in/b.csv", index=False)
    table(300).to_csv("in/c [1].csv", index=False)
    return ["a.csv", "b.csv", "c [1].csv"]


def rows_of(outcome: Outcome) -> list[list[str]]:
    """Cells of the table at the end."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in outcome.out.splitlines() if line[:1] == "│"]


def test_a_pattern_is_a_report_each_and_a_table(many: list[str]) -> None:
    """Red if a report differs from that of the single file, or the command does not train on all of them."""
    outcome = call("inspect", "in/*.csv", "seq_len=24", "label_len=12", "pred_len=6")
    assert (outcome.status, outcome.err) == (2, "")
    for name in many:
        alone = call("inspect", f"in/{name}", "seq_len=24", "label_len=12", "pred_len=6")
        assert alone.out + "\n" in outcome.out
    cells = [row for row in rows_of(outcome) if row[0]]
    assert [row[:4] for row in cells] == [
        [many[0], "400", "2", "none"], [many[1], "398", "2", "2"], [many[2], "300", "2", "none"]
    ]  # fmt: skip
    assert "3 in all, 2 sound" in outcome.out
    last = shlex.split(outcome.out.splitlines()[-1])
    assert {"dataset.sort=true", "dataset.fill=linear", "dataset.path=in/*.csv"} < set(last)
    ended = done("train", *last[2:], *QUICK)
    assert "csv: 3 series" in ended.out


def test_files_that_do_not_go_together(many: list[str]) -> None:
    table(freq="D").to_csv("in/d.csv", index=False)
    assert "one model needs the same columns and step in all" in call("inspect", "in").out
    Path("in/e.csv").write_bytes(b"a\0b")
    outcome = call("inspect", "in")
    assert (outcome.status, outcome.err) == (2, "")
    assert (
        "in/e.csv: a binary file, expected CSV text, parquet or an Excel workbook (.xlsx)" in outcome.out.splitlines()
    )
    assert ["e.csv", "0", "", "1", "", "", ""] in rows_of(outcome)
    assert "first fix those without a command" in outcome.out.splitlines()[-1]


@pytest.mark.parametrize("names", [("north", "south"), (1, 2)])
def test_a_column_that_names_series_is_found(folder: Path, names: tuple[object, object]) -> None:
    """Red if its rows are taken for repeats, or another column for it."""
    rows = [table(300).assign(flag=np.arange(300) % 2, id=name) for name in names]
    pd.concat(rows).to_csv("long.csv", index=False)
    lines = call("inspect", "long.csv", "seq_len=24", "label_len=12", "pred_len=6").out.splitlines()
    assert [line for line in lines if "series" in line][:2] == [
        "long.csv: times repeat, once for each series of column 'id'; set dataset.series_col=id",
        "series:   2, separated by column 'id'",
    ]
    assert not any("duplicates" in line or line.startswith("seasons") for line in lines)
    assert lines[-1] == "  informer inspect long.csv dataset.series_col=id"
    done("inspect", *lines[-1].split()[2:], "seq_len=24", "label_len=12", "pred_len=6")
    asked = call("inspect", "long.csv", "dataset.columns=[flag]").out.splitlines()[-1].split()[2:]
    assert set(asked) == {"long.csv", "'dataset.columns=[flag]'", "dataset.series_col=id"}
    rows[0].iloc[[*range(300), 7]].to_csv("long.csv", index=False)
    assert "dataset.duplicates=first" in call("inspect", "long.csv").out.splitlines()[-1]


@pytest.mark.parametrize("pattern", ["noise", "weekdays"])
def test_columns_that_name_series_together(pattern: str, folder: Path) -> None:
    """Red if they are not found, or the measured column, whose values return every week, is taken for a name."""
    rng = np.random.default_rng(0)
    sales = {"noise": lambda: rng.integers(10, 60, 280), "weekdays": lambda: 1000 + np.arange(280) % 7}[pattern]
    keys = [(store, item) for store in (1, 2) for item in ("a", "b, c", "d")]
    rows = [table(280).assign(store=store, item=item, n=sales() + 7 * k)[["date", "store", "item", "n"]]
            for k, (store, item) in enumerate(keys)]  # fmt: skip
    pd.concat(rows).to_csv("long.csv", index=False)
    lines = call("inspect", "long.csv").out.splitlines()
    assert [line for line in lines if "series" in line][:2] == [
        "long.csv: times repeat, once for each series of columns store, item; set dataset.series_col=[store,item]",
        "series:   6, separated by columns store, item",
    ]
    outcome = call("inspect", "long.csv", "dataset.series_col=[store,item]", "seq_len=24", "label_len=12", "pred_len=6")
    assert (outcome.status, "6 in all, 6 sound" in outcome.out) == (0, True)
    asked = call("inspect", "long.csv", "dataset.series_col=[store,thing]")
    assert "dataset.series_col=thing: long.csv has no such column" in asked.out + asked.err


def test_the_command_reads_what_is_no_number(folder: Path) -> None:
    """Red if categories or attributes that the file has are not in the command, or the command does not accept them."""
    one = table(300).assign(kind=np.where(np.arange(300) % 3, "calm", "busy"), remark=[f"no. {i}" for i in range(300)])
    one.to_csv("one.csv", index=False)
    given = ["seq_len=24", "label_len=12", "pred_len=6"]
    command = call("inspect", "one.csv", *given).out.splitlines()[-1]
    assert "'dataset.categorical=[kind]'" in command
    parts = [one.assign(id=name, region=name[0], size=place) for place, name in enumerate(("n1", "n2", "s1"))]
    pd.concat(parts).drop(columns="remark").to_csv("long.csv", index=False)
    printed = call("inspect", "long.csv", *given).out.splitlines()[-1]
    assert "'dataset.categorical=[kind]'" in printed
    assert "'dataset.static_covariates=[region,size]'" in printed
    outcome = done("inspect", "long.csv", "dataset.series_col=id", *given)
    assert "'dataset.static_covariates=[region,size]'" in outcome.out.splitlines()[-1]
    trains(outcome)


def rows_of_weather(n_again: int, changed: int = 0) -> pd.DataFrame:
    """Hours, some of them twice with another text, and in the first `changed` of these with another number."""
    frame = table(600).assign(weather="clear")
    again = frame.iloc[10 : 10 + n_again].assign(weather="rain")
    again.loc[again.index[:changed], "load"] += 1
    return pd.concat([frame, again]).sort_values("date", kind="stable", ignore_index=True)


def test_rows_that_repeat_the_numbers_of_their_time_may_be_dropped_by_name(folder: Path) -> None:
    """Red if the command cannot be pasted, or if it drops rows without naming them."""
    rows_of_weather(50).to_csv("f.csv", index=False)
    outcome = call("inspect", "f.csv")
    assert outcome.status == 2
    assert "(50 of 650 rows repeat a time, 100% of them with the numbers of another row at their time); " in outcome.out
    assert "dataset.confirm=[duplicates]" in command(outcome)
    is_read(outcome)
    refused = call("forecast", "f.csv", "repair=auto")
    assert refused.status == 2
    line = "to repair it, add repair=auto dataset.confirm=[duplicates], which sets dataset.duplicates=first\n"
    assert refused.err.endswith(line)


@pytest.mark.parametrize(("n_again", "changed"), [(50, 5), (50, 50)])
def test_rows_with_other_numbers_are_not_proposed_to_be_dropped(n_again: int, changed: int, folder: Path) -> None:
    rows_of_weather(n_again, changed).to_csv("f.csv", index=False)
    outcome = call("inspect", "f.csv")
    assert outcome.status == 2
    assert "informer train" not in outcome.out
    assert "dataset.duplicates=first dataset.confirm=[duplicates]" in outcome.out


def test_many_missing_rows_stay_missing_in_the_command(folder: Path) -> None:
    """The line about gaps and the command agree; of few missing rows nothing is invented."""
    table(600).drop(index=range(50, 90)).to_csv("many.csv", index=False)
    outcome = call("inspect", "many.csv")
    assert "gaps:     7% of the values are missing; dataset.fill=mask keeps them missing" in outcome.out
    assert "dataset.fill=mask" in command(outcome)
    table(600).drop(index=range(50, 60)).to_csv("few.csv", index=False)
    assert "dataset.fill=linear" in command(call("inspect", "few.csv"))


def test_years_and_months_next_to_times_are_proposed_to_be_left_out(folder: Path) -> None:
    """Red if a model is trained to forecast the month; a column of other numbers with such a name stays."""
    times = pd.date_range("2021-01-01", periods=ROWS, freq="h")
    table(year=times.year, month=times.month, hour=times.hour, day=0.5).to_csv("f.csv", index=False)
    outcome = call("inspect", "f.csv")
    assert (
        "calendar: year, month, hour repeat the time; dataset.exclude=[year,month,hour] leaves them out" in outcome.out
    )
    assert "dataset.exclude=[year,month,hour]" in command(outcome)
    assert "calendar:" not in call("inspect", "f.csv", "dataset.exclude=[year,month,hour]").out


def test_the_column_that_separates_series_is_not_called_a_category(folder: Path) -> None:
    """Red when the names of series are listed as unused text; the series overlap in part only."""
    parts = [table(300).assign(id="a", kind="x"), table(450)[150:].assign(id="b", kind="y")]
    pd.concat(parts).assign(kind=["x", "y", "y"] * 200).to_csv("long.csv", index=False)
    outcome = call("inspect", "long.csv")
    assert "separated by column 'id'" in outcome.out
    assert "text columns not used: kind (2 values)" in outcome.out
    assert "reads each" not in outcome.out
    refused = call("train", "dataset=csv", "dataset.path=long.csv", *QUICK)
    assert refused.status == 2
    assert "times repeat; dataset.series_col=id reads each id as a series" in refused.out
    assert "dataset.categorical=[kind]" in refused.out


def test_years_that_a_calendar_of_holidays_does_not_know(folder: Path) -> None:
    """Red if its package's warning is printed, or, where warnings are errors, ends the command."""
    table(42, freq="D").assign(date=pd.date_range("2000-01-01", periods=42)).drop(index=range(1, 6)).to_csv(
        "a.csv", index=False
    )
    outcome = call("inspect", "a.csv")
    assert "5 rows are missing" in outcome.out
    assert "only from 2001" not in outcome.out + outcome.err


def test_the_command_for_several_series_has_what_repairs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest rows first, and a holiday in letters next to zeros; red if the command that is printed is refused."""
    monkeypatch.chdir(tmp_path)
    days = [*pd.date_range("2024-01-01", periods=60, freq="D").strftime("%Y-%m-%d")][::-1]
    rows = [f"{day},{shop},{i % 7 + shop},{'a' if i == 3 else 0}" for i, day in enumerate(days) for shop in (1, 2, 3)]
    Path("shops.csv").write_text("\n".join(["day,shop,sales,holiday", *rows]) + "\n")
    lines = call("inspect", "shops.csv").out.splitlines()
    assert "fix:      in the commands below" in lines
    words = shlex.split(lines[next(i for i, line in enumerate(lines) if line.startswith("forecast:")) + 1])
    done(*words[1:], "target=sales", "horizon=7", "output=out")
    assert len(pd.read_csv("out/forecasts/shops.forecast.csv")) == 3 * 7
