"""Rolling forecasts with linear maps that are fitted again: against scikit-learn on all windows up to each origin."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, Outcome, Trained, call
from sklearn.linear_model import Ridge

from informer import Forecaster
from informer.checkpoint.format import COMBINED
from informer.config.input_format import InputFormat
from informer.inference.baselines import PENALTIES
from informer.inference.predictor import TrainedModel
from informer.inference.rolling.refits import Refits
from informer.linear.select import fit_shared
from informer.linear.solve import Layout
from informer.runtime import resource
from informer.training.refitting import refit_of

SEQ, PRED, STRENGTH, ROWS, TRAINED = 24, 6, 5.0, 320, 250
MAPS = "model.maps=[{lookback:24,last:false,taper:0.0,shared:5.0,groups:{}}]"
LINEAR = [*SMALL[1:], "features=S", "target=price", MAPS, "model.embed=none"]


def sample(rows: int = ROWS) -> pd.DataFrame:
    return pd.read_csv(resource("data/sample.csv")).head(rows)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Linear maps by themselves, with a network on them, and of two series."""
    folder = tmp_path_factory.mktemp("refits")
    sample().to_csv(folder / "rows.csv", index=False)
    two = [sample().assign(shop=name, price=lambda t, k=k: k * t["price"] ** k) for k, name in enumerate("ab", start=1)]
    pd.concat(two).to_csv(folder / "two.csv", index=False)
    one, many = (["dataset=csv", f"dataset.path={folder / name}"] for name in ("rows.csv", "two.csv"))
    for name, arguments in {
        "linear": [*one, "model=linear"],
        "network": [*one, "model=tiny", "model.skip=maps", "trainer.max_steps=3"],
        "two": [*many, "model=linear", "dataset.series_col=shop", "scaler.per_series=true"],
    }.items():
        outcome = call("train", *arguments, *LINEAR, f"run_dir={folder / name}")
        assert outcome.status == 0, outcome.err
    return folder


def rolled(runs: Path, *arguments: str, run: str = "linear", file: str | Path = "rows.csv") -> Outcome:
    given = [f"checkpoint={runs / run}", f"input={runs / file}", "output=out", "mode=rolling", "digits=null"]
    return call("predict", *given, *arguments)


def scaled(values: np.ndarray) -> np.ndarray:
    """As a model reads them: in single precision, scaled by the training rows."""
    return ((values - values[:200].mean()) / values[:200].std()).astype(np.float32).astype(np.float64)


def windows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Histories and futures of all windows less the histories' means."""
    every = np.lib.stride_tricks.sliding_window_view(values, SEQ + PRED)
    centred = every - every[:, :SEQ].mean(axis=1, keepdims=True)
    return centred[:, :SEQ], centred[:, SEQ:]


def ridge(values: np.ndarray, penalty: float | None = None) -> np.ndarray:
    x, y = windows(values)
    penalty = STRENGTH * (x**2).mean() if penalty is None else penalty
    return Ridge(penalty, fit_intercept=False, tol=0).fit(x, y).coef_.T


def penalty_before(values: np.ndarray) -> float:
    """The one that the baseline chooses on the last fifth of the windows."""
    x, y = windows(values)
    n = len(x) - int(0.2 * len(x))
    fits = {one: Ridge(one, fit_intercept=False).fit(x[:n], y[:n]) for one in PENALTIES}
    return min(fits, key=lambda one: ((fits[one].predict(x[n:]) - y[n:]) ** 2).sum())


def test_each_refit_is_ridge_on_all_rows_before(runs: Path, folder: Path) -> None:
    """For model and baseline; fails if a window after its origin is used, or one is left out or counted twice, or if
    maps are kept for more origins than requested."""
    outcome = rolled(runs, "refit_every=3", "stride=5", "intervals=[80]")
    assert outcome.status == 0, outcome.err
    raw, times = sample()["price"].to_numpy(), pd.to_datetime(sample()["date"])
    values = scaled(raw)
    chosen, expected, baseline, actual = penalty_before(values[:TRAINED]), [], [], []
    origins = range(TRAINED, ROWS - PRED + 1, 5)
    for number, origin in enumerate(origins):
        if number % 3 == 0:
            own, other = ridge(values[:origin]), ridge(values[:origin], chosen)
        history = values[origin - SEQ : origin]
        expected.append(history.mean() + (history - history.mean()) @ own)
        baseline.append(history.mean() + (history - history.mean()) @ other)
        actual.append(values[origin : origin + PRED])
    forecasts = pd.read_csv("out/rows.rolling.csv")
    assert list(pd.to_datetime(forecasts["origin"].unique())) == [times[origin - 1] for origin in origins]
    unscaled = np.array(expected) * raw[:200].std() + raw[:200].mean()
    np.testing.assert_allclose(forecasts["forecast"], unscaled.ravel(), rtol=1e-5)
    np.testing.assert_allclose(forecasts["actual"], raw[np.add.outer(origins, np.arange(PRED))].ravel(), rtol=1e-6)
    table = pd.read_csv("out/rows.rolling.metrics.csv", index_col=["model", "units", "column", "step", "metric"])
    for name, forecast in (("linear", expected), ("ridge", baseline)):
        mse = ((np.array(forecast) - actual) ** 2).mean()
        assert table["value"][name, "scaled", "all", "all", "mse"] == pytest.approx(mse, rel=1e-5)
    assert "linear maps: fitted 5 times, the last time on 281 windows" in " ".join(outcome.out.split())


def test_extended_moments_are_those_of_all_windows(runs: Path) -> None:
    """In double precision, after one refit and after four; red if moments are rounded or added in another place."""
    model, values = TrainedModel.load(runs / "linear", device="cpu"), scaled(sample()["price"].to_numpy())
    panel, refit = model.reader.file(runs / "rows.csv", InputFormat(), "rows", ahead=PRED), refit_of(runs / "linear", 1)
    refits = Refits(model, panel, refit)
    before = model.model.state_dict()["own"].clone()
    for stop in (SEQ + PRED + 10, 200, 201, 201, ROWS):
        refits.until(panel[0].timestamps[stop - 1])
        layout = Layout(SEQ, PRED, refit.kept_fit.features, refit.kept_fit.season, refit.kept_fit.repeated)
        assert refits.sums is not None
        weight, expected = fit_shared(refits.sums.pooled, layout, refit.kept_fit.strengths[0]), ridge(values[:stop])
        np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
        whole = expected + (1 - expected.sum(axis=0)) / SEQ
        np.testing.assert_allclose(refits.model.model.state_dict()["own"][0], whole, atol=1e-6)
        assert refits.windows == stop - SEQ - PRED + 1
    np.testing.assert_array_equal(model.model.state_dict()["own"], before)


def test_later_rows_change_nothing_before(runs: Path, folder: Path) -> None:
    """Red if a refit, a baseline or an interval reads a row after its origin."""
    table = sample()
    table.loc[290:, "price"] = np.random.default_rng(0).normal(1000, 300, ROWS - 290)
    table.to_csv("later.csv", index=False)
    for file in ("rows.csv", folder / "later.csv"):
        assert rolled(runs, "refit_every=2", "stride=4", "intervals=[80]", "adaptive=true", file=file).status == 0
    first, second = (pd.read_csv(f"out/{name}.rolling.csv").drop(columns="actual") for name in ("rows", "later"))
    early = first["origin"] < sample()["date"][290]
    assert 0 < early.sum() < len(first)
    pd.testing.assert_frame_equal(first[early], second[early])
    assert not first[~early]["forecast"].equals(second[~early]["forecast"])


def test_python_gives_the_table_of_the_command(runs: Path, folder: Path) -> None:
    """Red if one of them starts elsewhere; the forecaster itself is not changed."""
    assert rolled(runs, "refit_every=2", "from=2023-01-12").status == 0
    forecaster = Forecaster.load(runs / "linear", device="cpu")
    table = sample().assign(date=pd.to_datetime(sample()["date"]))
    once = forecaster.predict(table)
    forecasts = forecaster.backtest(table, refit_every=2, start="2023-01-12")
    expected = pd.read_csv("out/rows.rolling.csv", parse_dates=["origin", "date"])
    pd.testing.assert_frame_equal(forecasts, expected, check_dtype=False, rtol=1e-12)
    assert forecasts["date"].iloc[0] == pd.Timestamp("2023-01-12")
    pd.testing.assert_frame_equal(forecaster.predict(table), once)
    usual = forecaster.backtest(table, refit_every=2)
    assert usual["origin"].iloc[0] == table["date"].iloc[TRAINED - 1]  # after the rows of training


def test_a_network_keeps_what_it_adds(runs: Path) -> None:
    """Red if a refit changes the network, or forgets the seasonal naive's share of the forecast."""
    model = TrainedModel.load(runs / "network", device="cpu")
    shares = {"network": 0.5, "linear": 0.25, "naive": 0.25}
    model.checkpoint = replace(model.checkpoint, data=model.checkpoint.data | {COMBINED: shares})
    panel = model.reader.file(runs / "rows.csv", InputFormat(), "rows", ahead=PRED)
    refits = Refits(model, panel, refit_of(runs / "network", 1))
    refits.until(panel[0].timestamps[199])
    own, fitted = model.model.state_dict(), refits.model.model.state_dict()
    assert {name for name in own if not np.array_equal(own[name], fitted[name])} == {"maps.own"}
    expected = ridge(scaled(sample()["price"].to_numpy())[:200])
    expected = 0.75 * (expected + (1 - expected.sum(axis=0)) / SEQ)
    expected[np.arange(PRED), np.arange(PRED)] += 0.25  # a day of 24 rows ago
    np.testing.assert_allclose(fitted["maps.own"][0], expected, atol=1e-6)


def test_series_share_a_map_of_all_rows_before(runs: Path, folder: Path) -> None:
    """Two series, one of which ends earlier and begins later; fails if a row of the other series is after the
    origin."""
    table = pd.read_csv(runs / "two.csv")
    parts = {name: part.reset_index(drop=True) for name, part in table.groupby("shop")}
    cut = {"a": parts["a"].iloc[:300], "b": parts["b"].iloc[100:]}
    model = TrainedModel.load(runs / "two", device="cpu")
    pd.concat([cut["b"], cut["a"]]).to_csv("cut.csv", index=False)  # the other order
    panel, refit = model.reader.file(folder / "cut.csv", InputFormat(), "cut", ahead=PRED), refit_of(runs / "two", 1)
    refits, products = Refits(model, panel, refit), np.zeros((SEQ + PRED, SEQ + PRED))
    refits.until(pd.Timestamp(parts["a"]["date"][260]))
    refits.until(pd.Timestamp(parts["a"]["date"][310]))
    for name, weight in zip("ab", refit.kept_fit.weights, strict=True):
        values = scaled(parts[name]["price"].to_numpy())[cut[name].index]
        rows = np.lib.stride_tricks.sliding_window_view(values[cut[name].index <= 310], SEQ + PRED)
        products += weight * rows.T @ rows
    assert refits.sums is not None
    of_refit = refits.sums.pooled.products[: SEQ + PRED, : SEQ + PRED]
    np.testing.assert_allclose(of_refit, products, rtol=1e-9, atol=1e-9 * products.max())

    outcome = rolled(runs, "refit_every=2", "stride=20", run="two", file=folder / "cut.csv")
    assert outcome.status == 0, outcome.err
    written = pd.read_csv("out/cut.rolling.csv")
    origins = written.drop_duplicates(["shop", "origin"])
    times = sorted(origins["origin"].unique())
    order = [times.index(one) // 2 for one in origins["origin"]]
    assert order == sorted(order)
    assert set(origins["shop"]) == {"a", "b"}
    cut["a"].to_csv("alone.csv", index=False)
    outcome = rolled(runs, "refit_every=2", run="two", file=folder / "alone.csv")
    assert outcome.status == 2
    assert "expected all series of training, found no b" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["refit_every=2", "mode=ahead"], "refit_every: only used with mode=rolling"),
        (["refit_every=0"], "refit_every: expected at least 1, found 0"),
        (["refit_every=2", "from=2023-01-02"], "up to the first origin"),
        (["refit_every=2", "checkpoint=nothing"], "nothing does not exist"),
        (["refit_every=2", "checkpoint={tiny}"], "it has no linear maps"),
        (["refit_every=2", "checkpoint={tiny}/best.pt"], "expected the model of a run directory"),
        (["refit_every=2", "checkpoint={runs}/unkept"], "has no saved moments of its linear maps"),
        (["refit_every=2", "checkpoint={runs}/further"], "its linear maps were trained further"),
        (["refit_every=2", "checkpoint={runs}/known"], "effects of columns, categories or holidays known ahead"),
    ],
)
def test_what_cannot_be_refitted_is_one_line(
    runs: Path, trained: Trained, folder: Path, arguments: list[str], part: str
) -> None:
    given = [one.format(runs=runs, tiny=trained.run_dir) for one in arguments]
    wanted = {
        "unkept": ["trainer.keep=false"],
        "further": ["trainer.max_steps=1"],
        "known": ["future_covariates=[visitors]"],
    }
    for name, settings in wanted.items():
        if f"checkpoint={runs / name}" in given and not (runs / name).exists():
            common = ["dataset=csv", f"dataset.path={runs / 'rows.csv'}", "model=linear", *LINEAR]
            assert call("train", *common, *settings, f"run_dir={runs / name}").status == 0
    outcome = rolled(runs, *given)
    assert outcome.status == 2, outcome.out
    assert part in outcome.err
    assert outcome.err.count("\n") == 1
    assert not list(Path().glob("out/*.csv"))


def test_a_forecaster_without_a_run_says_so(runs: Path) -> None:
    with pytest.raises(ValueError, match="expected the model of a run directory, found none"):
        Forecaster(TrainedModel.load(runs / "linear", device="cpu")).backtest(sample(), refit_every=2)
