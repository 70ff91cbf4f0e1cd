"""Columns known ahead, from the command line: the model uses them, and asks for them by name and time."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call, done

from informer import Forecaster, InputError

RUN = [
    "dataset=csv", "dataset.path=driven.csv", "attn=full", "model=tiny", "model.d_model=16", "model.encoder_stacks=[1]",
    "seq_len=12", "label_len=6", "pred_len=6", "optim.lr=1e-2", "trainer.max_epochs=2", "targets=[load]",
    "trainer.tracker=[]",
]  # fmt: skip


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A load that follows prices which nothing in the past foretells, and the prices; runs with and without them."""
    folder = tmp_path_factory.mktemp("driven")
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=1506, freq="h"), "price": rng.normal(size=1506)})
    frame["load"] = 40 - 5 * frame["price"] + 0.5 * rng.normal(size=1506)
    frame[:1500].to_csv(folder / "driven.csv", index=False)
    frame[["date", "price"]].to_csv(folder / "prices.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done("train", *RUN, "future_covariates=[price]", "run_dir=future")
        done("train", *RUN, "past_covariates=[price]", "trainer.max_steps=1", "run_dir=past")
    return folder, frame


def test_rows_at_the_end_without_the_target_are_ahead(driven: tuple[Path, pd.DataFrame], folder: Path) -> None:
    """Red if a command demands a second file, or the rows count as history."""
    top, frame = driven
    both = frame.assign(load=frame["load"].where(frame.index < 1500))
    model = Forecaster.load(top / "future", device="cpu")
    expected = model.predict(frame[:1500], future=frame[1500:])
    assert np.corrcoef(expected["load"], frame["price"][1500:])[0, 1] < -0.9
    pd.testing.assert_frame_equal(model.predict(both), expected)
    pd.testing.assert_frame_equal(model.predict_many({"a": both})["a"], expected)
    Path("in").mkdir()
    for name, place in (("a", 1500), ("b", 1200)):
        rows = frame[: place + 6]
        rows.assign(load=rows["load"].where(rows.index < place)).to_csv(f"in/{name}.csv", index=False)
    done("predict", f"checkpoint={top / 'future'}", "input=in", "output=out")
    np.testing.assert_allclose(pd.read_csv("out/a.forecast.csv")["load"], expected["load"], rtol=1e-5)
    other = model.predict(frame[:1200], future=frame[1200:])
    np.testing.assert_allclose(pd.read_csv("out/b.forecast.csv")["load"], other["load"], rtol=1e-5)


def test_the_times_of_a_future_stand_in_the_column_of_training(driven: tuple[Path, pd.DataFrame], folder: Path) -> None:
    """Red if the first column of times counts: that of training is the second, next to the time of issue."""
    top, frame = driven
    both = frame.assign(time=frame["date"] - pd.Timedelta("3h"))[["time", "date", "price", "load"]]
    both[1400:1500].to_csv("history.csv", index=False)
    both.drop(columns="load").to_csv("later.csv", index=False)
    both[["date", "price"]].to_csv("plain.csv", index=False)
    texts = []
    for future in ("later.csv", "plain.csv"):
        arguments = [
            f"checkpoint={top / 'future'}", "input=history.csv", f"future={future}", "output=out", "overwrite=true",
        ]  # fmt: skip
        done("predict", *arguments, "plots=false")
        texts.append(Path("out/history.forecast.csv").read_text())
    assert texts[0] == texts[1]
    assert np.corrcoef(pd.read_csv("out/history.forecast.csv")["load"], frame["price"][1500:])[0, 1] < -0.9


def test_a_longer_horizon_takes_longer_futures(driven: tuple[Path, pd.DataFrame]) -> None:
    folder, frame = driven
    forecaster = Forecaster.load(folder / "future")
    forecast = forecaster.predict(frame[:1400], horizon=9, future=frame[["date", "price"]])
    first = forecaster.predict(frame[:1400], future=frame[["date", "price"]])
    np.testing.assert_allclose(forecast["load"][:6], first["load"], rtol=1e-5)
    assert np.corrcoef(forecast["load"], frame["price"][1400:1409])[0, 1] < -0.9
    with pytest.raises(InputError, match=r"for 9 times, .*missing: 2022-02-28 14:00:00, .* 16:00:00; horizon=6 needs"):
        forecaster.predict(frame[:1400], horizon=9, future=frame[["date", "price"]][:1406])
    frames = {"x": frame[:1400], "y": frame[:1000]}
    both = forecaster.predict_many(frames, futures=dict.fromkeys("yx", frame))
    np.testing.assert_allclose(both["x"]["load"], first["load"], rtol=1e-5)
    with pytest.raises(InputError, match="futures: expected one for each table, found none for y"):
        forecaster.predict_many(frames, futures={"x": frame})


def test_each_file_has_its_own_future(driven: tuple[Path, pd.DataFrame], folder: Path) -> None:
    """Red if futures are matched by their order; that of c is too short, and there are prices of other files."""
    frame = driven[1]
    ends = {"a": 1500, "b": 1200, "c": 900}
    for place in ("in", "ahead"):
        Path(place).mkdir()
    for name, end in ends.items():
        frame[end - 100 : end].to_csv(f"in/{name}.csv", index=False)
        rows = frame[["date", "price"]][end : end + (6 if name != "c" else 5)]
        rows.to_csv(f"ahead/{name}.csv", index=False)
    frame[:7].to_csv("ahead/0.csv", index=False)
    run = [f"checkpoint={driven[0] / 'future'}", "output=out", "overwrite=true"]
    model = Forecaster.load(driven[0] / "future", device="cpu")
    for wanted in ("future=ahead", "future=ahead/*.csv"):
        outcome = call("predict", *run, "input=in", wanted)
        assert outcome.status == 1
        assert "2 files forecast, 1 failed" in outcome.out
        message = pd.read_csv("out/summary.csv")["message"][2]
        assert message.startswith("c.csv: expected future covariates for 6 times")
        for name in ("a", "b"):
            forecast = pd.read_csv(f"out/{name}.forecast.csv")
            expected = model.predict(frame[ends[name] - 100 : ends[name]], future=frame[["date", "price"]])
            np.testing.assert_allclose(forecast["load"], expected["load"], rtol=1e-4)
    done("predict", *run, "input=in/b.csv", "future=ahead")
    np.testing.assert_allclose(pd.read_csv("out/b.forecast.csv")["load"], forecast["load"], rtol=1e-4)
    run.remove("overwrite=true")
    assert "(2 of them already done)" in call("predict", *run, "input=in", "future=ahead", "resume=true").out
    frame[["date", "price"]].to_csv("ahead/b.csv", index=False)
    assert "(0 of them already done)" in call("predict", *run, "input=in", "future=ahead", "resume=true").out


def test_futures_that_are_missing(driven: tuple[Path, pd.DataFrame], folder: Path) -> None:
    """One line before anything is forecast."""
    line = call("predict", f"checkpoint={driven[0] / 'future'}", f"input={driven[0] / 'driven.csv'}").err
    assert line.startswith("error: driven.csv: expected future covariates for 6 times, 2022-03-04 12:00:00 to ")
    assert line.endswith(" and 3 more; add rows with price, or name those that have them in future\n")
    for place in ("in", "ahead", "bare"):
        Path(place).mkdir()
    for name in "abc":
        driven[1][:1500].to_csv(f"in/{name}.csv", index=False)
    driven[1].to_csv("ahead/b.csv", index=False)
    run = [f"checkpoint={driven[0] / 'future'}", "input=in", "output=out", "overwrite=true"]
    for more, line in (
        (["future=ahead"], "future=ahead: expected a file for each input, with the same name; found none for a, c"),
        (["future=bare"], "future=bare: expected files ending in .csv, .csv.gz, .tsv, .parquet, .xlsx, found none"),
        (["future=ahead/*.txt"], "future=ahead/*.txt: expected files that match the pattern, found none"),
        (["future=absent.csv"], "absent.csv: no such file, check the path"),
        (["future=ahead/b.csv", f"checkpoint={driven[0] / 'past'}"],
         "future: the model has no future covariates; leave it out"),
    ):  # fmt: skip
        outcome = call("predict", *run, *more)
        assert (outcome.status, outcome.err) == (2, f"error: {line}\n")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda prices: prices[:1503], "missing: 2022-03-04 15:00:00, 2022-03-04 16:00:00, 2022-03-04 17:00:00"),
        (lambda prices: prices.rename(columns={"price": "cost"}), "future covariates missing: price; found"),
        (lambda prices: prices.assign(price=prices["price"].where(prices.index != 1502)), "row 1504, column 'price'"),
        (lambda prices: prices[["price"]], "no time column found among price"),
    ],
)
def test_what_is_missing_is_one_line(
    driven: tuple[Path, pd.DataFrame], change: object, line: str, folder: Path
) -> None:
    assert callable(change)
    change(driven[1][["date", "price"]]).to_csv("given.csv", index=False)
    run = [f"checkpoint={driven[0] / 'future'}", f"input={driven[0] / 'driven.csv'}", "output=out", "overwrite=true"]
    refusal = call("predict", *run, "future=given.csv")
    assert refusal.status == 2
    assert refusal.err.startswith("error: given.csv")
    assert line in refusal.err
    assert not Path("out").exists()


def test_columns_known_ahead_may_have_dates_of_another_format(folder: Path) -> None:
    """Red if the format that is set for the rows is the only one in which the file of `future=` is read."""
    times, day = pd.date_range("2024-01-01", periods=324, freq="h"), np.arange(324) * 2 * np.pi / 24
    table = pd.DataFrame({"time": times, "load": 50 + 10 * np.sin(day), "temp": np.cos(day / 3)})
    table.iloc[:300].to_csv("load.csv", index=False, date_format="%d/%m/%Y %H:%M")
    table.iloc[300:].drop(columns="load").to_csv("ahead.csv", index=False)
    words = ["horizon=24", "future=ahead.csv", "output=out", "dataset.time_format=%d/%m/%Y %H:%M"]
    done("forecast", "load.csv", *words)
    assert pd.read_csv("out/forecasts/load.forecast.csv")["time"].iloc[-1] == "14/01/2024 11:00"


HOURLY = ["dataset.duplicates=mean", "dataset.frequency=h"]


def test_rows_ahead_that_do_not_fit_the_history(folder: Path) -> None:
    """Red if `informer forecast` leaves out a column of future= that the history lacks without a word, reads rows at
    longer steps, forecasts more steps than rows at shorter steps reach, names a cure that does not work, or adds to the
    question how dates are meant that they are none."""
    times, rng = pd.date_range("2024-01-01", periods=4 * 24 * 12, freq="15min"), np.random.default_rng(0)
    temp = 10 + np.sin(np.arange(len(times)) * 2 * np.pi / 96) + rng.normal(size=len(times))
    whole = pd.DataFrame({"date": times, "load": 3 * temp, "temp": temp})
    past, ahead = whole[:-96], whole[-96:].drop(columns="load")
    past.to_csv("past.csv", index=False)
    past[::4].to_csv("hourly.csv", index=False)
    ahead.assign(wind=1.0).to_csv("wind.csv", index=False)
    ahead.rename(columns={"temp": "tmp"}).to_csv("typo.csv", index=False)
    ahead[::4].to_csv("hours.csv", index=False)
    ahead.to_csv("ahead.csv", index=False)
    few = ahead[:10].assign(date=pd.date_range("2025-02-01", periods=10).strftime("%d/%m/%Y"))
    few.to_csv("unclear.csv", index=False)
    run = ["target=load", "output=out", "overwrite=true"]
    assert len(call("forecast", "past.csv", "future=unclear.csv", *run).err.splitlines()) == 1
    lines = [
        (["past.csv", "future=wind.csv"], "has no column 'wind'; leave it out, or set future_covariates=[temp]"),
        (["past.csv", "future=typo.csv"], "has no column 'tmp'; did you mean 'temp'?"),
        (["past.csv", "future=hours.csv"], "its rows have steps of h, those of the history 15min; "),
        (["past.csv", "future=ahead.csv", *HOURLY], "several rows in a step of h; dataset.duplicates=mean joins those"),
    ]
    for words, says in lines:
        assert says in call("forecast", *words, *run).err
    for words in (
        ["past.csv", "future=wind.csv", "future_covariates=[temp]"],
        ["past.csv", "future=hours.csv", *HOURLY],
        ["hourly.csv", "future=ahead.csv"],
    ):
        done("forecast", *words, *run)
    assert len(pd.read_csv("out/forecasts/hourly.forecast.csv")) == 24


def test_numbered_rows_ahead_in_a_named_column(folder: Path) -> None:
    """Red if the time column that was named is looked for again in future=, where numbers of rows have no usual name,
    or if rows ahead, which are not summed, are said to be."""
    numbers, rng = np.arange(200), np.random.default_rng(0)
    whole = pd.DataFrame({"lot": numbers, "size": rng.normal(size=200), "line": 1}).assign(load=lambda x: 3 * x["size"])
    whole[:190].to_csv("past.csv", index=False)
    whole[190:].drop(columns=["load", "line"]).to_csv("ahead.csv", index=False)
    words = ["target=load", "dataset.time_col=lot", "dataset.time_format=step"]
    done("forecast", "past.csv", "future=ahead.csv", "output=out", *words)
    assert pd.read_csv("out/forecasts/past.forecast.csv")["lot"].tolist() == numbers[190:].tolist()
    ahead = pd.concat([whole[190:].drop(columns="load").assign(line=name) for name in (1, 2)])
    ahead.to_csv("lines.csv", index=False)
    summed = call("forecast", "past.csv", "future=lines.csv", "output=sums", *words, "dataset.duplicates=sum")
    assert "lines.csv: duplicate timestamp" in summed.err
    assert "summed" not in summed.err + summed.out
