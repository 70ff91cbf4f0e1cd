"""Columns known ahead, from the command line: the model uses them, and asks for them by name and time."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call, done, refusal

from informer import Forecaster, InputError

RUN = [
    "dataset=csv", "dataset.path=driven.csv", "attn=full", "model=tiny", "model.d_model=16", "model.encoder_stacks=[1]",
    "seq_len=12", "label_len=6", "pred_len=6", "optim.lr=1e-2", "trainer.max_epochs=2", "targets=[load]",
    "trainer.tracker=[]",
]  # fmt: skip


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A load that follows prices which nothing in the past foretells, and the prices; and a run with them."""
    folder = tmp_path_factory.mktemp("driven")
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=1506, freq="h"), "price": rng.normal(size=1506)})
    frame["load"] = 40 - 5 * frame["price"] + 0.5 * rng.normal(size=1506)
    frame[:1500].to_csv(folder / "driven.csv", index=False)
    frame[["date", "price"]].to_csv(folder / "prices.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done("train", *RUN, "future_covariates=[price]", "run_dir=future")
    return folder, frame


def test_rows_at_the_end_without_the_target_are_ahead(driven: tuple[Path, pd.DataFrame], folder: Path) -> None:
    """Red if a command demands a second file, or the rows count as history."""
    top, frame = driven
    both = frame.assign(load=frame["load"].where(frame.index < 1500))
    model = Forecaster.load(top / "future", device="cpu")
    expected = model.predict(frame[:1500], future=frame[1500:])
    assert np.corrcoef(expected["load"], frame["price"][1500:])[0, 1] < -0.9
    pd.testing.assert_frame_equal(model.predict(both), expected)
    Path("in").mkdir()
    for name in "ab":
        both.to_csv(f"in/{name}.csv", index=False)
    done("predict", f"checkpoint={top / 'future'}", "input=in", "output=out")
    np.testing.assert_allclose(pd.read_csv("out/b.forecast.csv")["load"], expected["load"], rtol=1e-5)


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


def test_a_longer_horizon_takes_longer_futures_and_a_shorter_one_shorter(driven: tuple[Path, pd.DataFrame]) -> None:
    folder, frame = driven
    forecaster = Forecaster.load(folder / "future")
    forecast = forecaster.predict(frame[:1400], horizon=9, future=frame[["date", "price"]])
    first = forecaster.predict(frame[:1400], future=frame[["date", "price"]])
    np.testing.assert_allclose(forecast["load"][:6], first["load"], rtol=1e-5)
    assert np.corrcoef(forecast["load"], frame["price"][1400:1409])[0, 1] < -0.9
    with pytest.raises(InputError, match=r"2022-02-28 14:00:00, .* 16:00:00"):
        forecaster.predict(frame[:1400], horizon=9, future=frame[["date", "price"]][:1406])
    last = frame[["date", "price"]].assign(price=frame["price"].where(frame.index < 1403, frame["price"][1402]))
    few = [forecaster.predict(frame[:1400], horizon=3, future=last[:n]) for n in (1403, 1409)]
    pd.testing.assert_frame_equal(*few)  # the rows after the horizon repeat the last price
    frames = {"x": frame[:1400], "y": frame[:1000]}
    both = forecaster.predict_many(frames, futures=dict.fromkeys("yx", frame))
    np.testing.assert_allclose(both["x"]["load"], first["load"], rtol=1e-5)
    with pytest.raises(InputError, match=r"futures: .* y"):
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
    outcome = call("predict", *run, "input=in", "future=ahead/*.csv")
    assert outcome.status == 1
    assert "2 files forecast, 1 failed" in outcome.out
    assert pd.read_csv("out/summary.csv")["message"][2].startswith("c.csv: ")
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
    """One line before anything is forecast, which names the file, its rows and columns."""
    prices = driven[1][["date", "price"]]
    for place in ("in", "ahead", "bare"):
        Path(place).mkdir()
    for name in "abc":
        driven[1][:1500].to_csv(f"in/{name}.csv", index=False)
    prices.to_csv("ahead/b.csv", index=False)
    prices[:1503].to_csv("short.csv", index=False)
    prices.rename(columns={"price": "cost"}).to_csv("other.csv", index=False)
    prices.assign(price=prices["price"].where(prices.index != 1502)).to_csv("hole.csv", index=False)
    prices[["price"]].to_csv("timeless.csv", index=False)
    run, one = [f"checkpoint={driven[0] / 'future'}", "output=out"], f"input={driven[0] / 'driven.csv'}"
    for words, place in (
        ([one], "driven.csv: expected future covariates for 6 times, 2022-03-04 12:00:00 to "),
        ([one, "future=short.csv"], "missing: 2022-03-04 15:00:00, 2022-03-04 16:00:00, 2022-03-04 17:00:00"),
        ([one, "future=other.csv"], "other.csv: future covariates missing: price"),
        ([one, "future=hole.csv"], "hole.csv, row 1504, column 'price'"),
        ([one, "future=timeless.csv"], "timeless.csv: no time column"),
        ([one, "future=absent.csv"], "absent.csv: no such file"),
        (["input=in", "future=ahead"], "none for a, c"),
        (["input=in", "future=bare"], "future=bare: expected files"),
        (["input=in", "future=ahead/*.txt"], "future=ahead/*.txt: expected files"),
    ):
        assert place in refusal("predict", *run, *words)
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


def test_rows_ahead_at_other_steps_than_the_history(folder: Path) -> None:
    """Red if rows at shorter steps are refused, or forecast more steps than they reach, or if the question how dates
    are meant is asked in more than a line."""
    times, rng = pd.date_range("2024-03-01", periods=4 * 24 * 6, freq="15min"), np.random.default_rng(0)
    whole = pd.DataFrame({"date": times, "temp": 10 + rng.normal(size=len(times))})
    past, ahead = whole[:-96].assign(load=lambda rows: 3 * rows["temp"]), whole[-96:]
    past.to_csv("past.csv", index=False)
    past[::4].to_csv("hourly.csv", index=False)
    ahead[::4].to_csv("hours.csv", index=False)
    ahead.to_csv("ahead.csv", index=False)
    few = ahead[:10].assign(date=pd.date_range("2025-02-01", periods=10).strftime("%d/%m/%Y"))
    few.to_csv("unclear.csv", index=False)
    run, hours = ["target=load", "output=out", "overwrite=true"], ["dataset.duplicates=mean", "dataset.frequency=h"]
    assert len(call("forecast", "past.csv", "future=unclear.csv", *run).err.splitlines()) == 1
    assert "hours.csv: " in refusal("forecast", "past.csv", "future=hours.csv", *run)
    assert "dataset.duplicates=mean" in refusal("forecast", "past.csv", "future=ahead.csv", *hours, *run)
    done("forecast", "past.csv", "future=hours.csv", *hours, *run)
    done("forecast", "hourly.csv", "future=ahead.csv", *run)
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
