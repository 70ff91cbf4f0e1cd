"""The table of kinds of columns by commands: each cell works, and agrees with another way to the same numbers."""

import functools
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from entry_points import assert_same_weights, call_export, done
from served import CSV, JSON, serving

from informer import Forecaster

ROWS, AHEAD, SEQ_LEN = 140, 5, 10
SETTINGS = [
    "dataset=csv", "model=tiny", "attn=full", "model.d_model=8", "model.encoder_stacks=[1]", "targets=[y]",
    f"seq_len={SEQ_LEN}", "label_len=5", f"pred_len={AHEAD}", "trainer.max_epochs=1", "trainer.batch_size=16",
    "non_negative=none", "trainer.tracker=[]",
]  # fmt: skip
KINDS = {
    "past": ["past_covariates=[x]"],
    "ahead": ["future_covariates=[x]"],
    "category": ["past_covariates=[word]"],
    "category ahead": ["future_covariates=[word]"],
    "static": ["dataset.series_col=id", "dataset.static_covariates=[region,size]"],
    "holidays": ["dataset.holidays=US"],
    "filled": ["past_covariates=[x]", "dataset.fill=linear"],
    "masked": ["past_covariates=[x]", "dataset.fill=mask"],
    "panel": ["dataset.series_col=id"],
    "vectors": ["dataset.series_col=id", "model.series_embedding=2"],
    "all": [
        "dataset.series_col=id", "dataset.static_covariates=[region,size]", "dataset.holidays=US", "dataset.fill=mask",
        "past_covariates=[word]", "future_covariates=[x]",
    ],
}  # fmt: skip
COLUMNS = {
    "past": ["x"], "ahead": ["x"], "category": ["word"], "category ahead": ["word"],
    "static": ["region", "size"], "holidays": [], "filled": ["x"],
    "masked": ["x"], "panel": [], "vectors": [], "all": ["region", "size", "word", "x"],
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A kind, the folder of its files, and all its rows, of which the last AHEAD are in no file of history."""

    kind: str
    folder: Path
    frame: pd.DataFrame

    @property
    def has_series(self) -> bool:
        return "id" in self.frame

    @property
    def keys(self) -> list[str]:
        return ["date", "id"] if self.has_series else ["date"]

    @property
    def history(self) -> pd.DataFrame:
        return self.frame[self.frame["date"] < self.frame["date"].unique()[ROWS]]

    @property
    def future(self) -> pd.DataFrame | None:
        """What is known of the last rows; None: nothing has to be."""
        known = [*self.keys, "word" if self.kind == "category ahead" else "x"]
        is_needed = self.kind in ("ahead", "category ahead", "all")
        return self.frame[known].drop(self.history.index) if is_needed else None

    def given(self, future: str = "future.csv") -> list[str]:
        return [] if self.future is None else [f"future={future}"]

    def train(self, *more: str) -> list[str]:
        return [*SETTINGS, *KINDS[self.kind], "dataset.path=own.csv", *more]

    def predicted(self, run: str = "run") -> pd.DataFrame:
        return predicted(self, run)


@functools.cache
def predicted(cell: Cell, run: str) -> pd.DataFrame:
    """The forecast of a run of this folder, by Python, made once."""
    return Forecaster.load(run, device="cpu").predict(cell.history, future=cell.future)


def rows(kind: str) -> pd.DataFrame:
    """Two series of days, or one, with the columns of a kind; a tenth of the numbers is missing where gaps are."""
    draw, parts = np.random.default_rng(len(kind)), []
    n, times = ROWS + AHEAD, pd.date_range("2023-10-01", periods=ROWS + AHEAD)
    for k in range(2 if "dataset.series_col=id" in KINDS[kind] else 1):
        part = pd.DataFrame({"date": times.astype(str), "id": f"s{k}", "region": ["hill", "sea"][k], "size": 3.0 + k})
        part = part.assign(word=draw.choice(["a", "b"], n), x=draw.normal(size=n))
        effects = part["x"] + 3 * (part["word"] == "b")
        parts.append(part.assign(y=effects + np.arange(n) % 7 + 10 * k + draw.normal(size=n)))
    frame = pd.concat(parts, ignore_index=True)
    if kind in ("filled", "masked", "all"):
        holes = (draw.random(len(frame)) < 0.1) & (np.arange(len(frame)) % n > 0) & (np.arange(len(frame)) % n < ROWS)
        frame["y"] = frame["y"].mask(holes)
    keys = ["date", "id"] if len(parts) > 1 else ["date"]
    return frame[[*keys, *COLUMNS[kind], "y"]]


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cell:
    """The files of a kind, and a run on them."""
    cell = Cell(request.param, tmp_path_factory.mktemp(request.param), rows(request.param))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cell.folder)
        cell.history.to_csv("own.csv", index=False)
        if cell.future is not None:
            cell.future.to_csv("future.csv", index=False)
        done("train", *cell.train("run_dir=run"))
    return cell


@pytest.fixture
def cell(trained: Cell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    monkeypatch.chdir(trained.folder)
    return trained


def evaluates(cell: Cell) -> None:
    """The scores of training again."""
    done("eval", "checkpoint=run", "plots=none", "output=again")
    pd.testing.assert_frame_equal(pd.read_csv("again/metrics.csv"), pd.read_csv("run/metrics.csv"))


def predicts_one(cell: Cell) -> None:
    """The forecast of the Python interface for the table."""
    done("predict", "checkpoint=run", "input=own.csv", "output=one", "plots=false", "digits=null", *cell.given())
    found = pd.read_csv("one/own.forecast.csv")
    np.testing.assert_allclose(found["y"], cell.predicted()["y"], rtol=1e-6)
    assert np.isfinite(found["y"]).all()


def predicts_many(cell: Cell) -> None:
    """Two files of the same content: twice the forecast of one."""
    for folder in ("in", "ahead"):
        Path(folder).mkdir()
    for name in ("a", "b"):
        shutil.copy("own.csv", f"in/{name}.csv")
        if cell.future is not None:
            shutil.copy("future.csv", f"ahead/{name}.csv")
    done("predict", "checkpoint=run", "input=in", "output=many", "digits=null", *cell.given("ahead"))
    for name in ("a", "b"):
        found = pd.read_csv(f"many/{name}.forecast.csv")
        np.testing.assert_allclose(found["y"], cell.predicted()["y"], rtol=1e-5, atol=1e-5)


def rolls(cell: Cell) -> None:
    """Forecasts from the last origin of all rows are those of the history, next to the actual values."""
    cell.frame.to_csv("whole.csv", index=False)
    more = ["mode=rolling", "stride=5", f"from={cell.frame['date'].unique()[ROWS - 2 * AHEAD]}", "digits=null"]
    done("predict", "checkpoint=run", "input=whole.csv", "output=rolled", *more)
    found = pd.read_csv("rolled/whole.rolling.csv")
    last = found[found["origin"] == found["origin"].max()]
    np.testing.assert_allclose(last["forecast"], cell.predicted()["y"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(last["actual"], cell.frame.drop(cell.history.index)["y"], rtol=1e-6)


def resumes(cell: Cell) -> None:
    """One epoch and one more are two, bit for bit."""
    shutil.copytree("run", "longer")
    done("train", "resume=longer", "trainer.max_epochs=2")
    done("train", *cell.train("run_dir=straight", "trainer.max_epochs=2"))
    assert_same_weights("longer", "straight")


def exports(cell: Cell) -> None:
    """A file that is read as a checkpoint; its forecasts are those of the run."""
    done("export", "checkpoint=run", "output=model.safetensors")
    found = Forecaster.load("model.safetensors", device="cpu").predict(cell.history, future=cell.future)
    pd.testing.assert_frame_equal(found, cell.predicted())


def scaler_of(about: dict[str, Any], name: str | None) -> dict[str, Any]:
    """The scaler of a series by the description of an export."""
    found: dict[str, Any] = about["scaler"]["shared"] if name is None else about["scaler"]["by_series"][name]
    return found


def marks_of(times: pd.DatetimeIndex, names: list[str]) -> np.ndarray:
    """The marks of days, each from -0.5 to 0.5."""
    from holidays import country_holidays

    shares = {"weekday": times.day_of_week / 6, "day": (times.day - 1) / 30, "dayofyear": (times.day_of_year - 1) / 365}
    shares["holiday_US"] = np.isin(times.date, list(country_holidays("US", years=[*times.year.unique()])))
    return np.column_stack([np.asarray(shares[name], float) - 0.5 for name in names])


def arrays_of(cell: Cell, about: dict[str, Any], name: str | None, run: str) -> dict[str, np.ndarray]:
    """The inputs of an exported network for one series, by its description and pandas."""
    columns = about["columns"]["inputs"]
    own = cell.frame if name is None else cell.frame[cell.frame["id"] == name]
    past, ahead = own[:ROWS], own[ROWS:]
    whole = [
        one for one in columns if one not in about["columns"]["with_observed_mask"] and one not in about["categories"]
    ]
    past = past.assign(**{one: past[one].ffill() for one in whole})
    known = [*about["columns"]["future_covariates"], *about["columns"]["static_covariates"]]
    scaler = scaler_of(about, name)

    def scaled(rows: pd.DataFrame) -> np.ndarray:
        found = pd.DataFrame({one: rows[one].map(codes) for one, codes in about["categories"].items()})
        for place, one in enumerate(columns):
            if one not in found:
                found[one] = (rows[one] - scaler["center"][place]) / scaler["scale"][place]
        masks = [rows[one].notna().astype(float) for one in about["columns"]["with_observed_mask"]]
        return np.column_stack([found[columns].fillna(0.0), *masks])

    enc_x = scaled(past[-SEQ_LEN:])
    horizon = scaled(ahead) * [one in known for one in [*columns, *about["columns"]["with_observed_mask"]]]
    label = about["lengths"]["label_len"]
    times = pd.DatetimeIndex(own["date"])[ROWS - SEQ_LEN :]
    marks = marks_of(times, about["calendar"]["marks"])
    arrays = {
        "enc_x": enc_x,
        "enc_mark": marks[:SEQ_LEN],
        "dec_x": np.concatenate([enc_x[-label:], horizon]),
        "dec_mark": marks[SEQ_LEN - label :],
    }
    found = {one: array.astype(np.float32)[None] for one, array in arrays.items()}
    return found | ({"series": np.array([about["series"].index(name)])} if name is not None else {})


def agrees_with_onnx(cell: Cell, run: str) -> None:
    """The graph's outputs, from arrays made as its description says, are the forecasts of the run."""
    pytest.importorskip("onnxscript", reason="format=onnx needs onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime", reason="format=onnx needs onnxruntime")
    outcome = call_export(f"checkpoint={run}", "format=onnx", f"output={run}.onnx")
    assert (outcome.status, outcome.err) == (0, ""), outcome.err
    about = json.loads(Path(f"{run}.onnx.json").read_text())
    session = onnxruntime.InferenceSession(f"{run}.onnx", providers=["CPUExecutionProvider"])
    read = [one.name for one in session.get_inputs()]
    place, parts = about["columns"]["inputs"].index("y"), []
    for name in ["s0", "s1"] if cell.has_series else [None]:
        scaler = scaler_of(about, name)
        arrays = arrays_of(cell, about, name, run)
        (scaled,) = session.run(None, {one: arrays[one] for one in read})
        parts.append(scaled[0, :, 0] * scaler["scale"][place] + scaler["center"][place])
    np.testing.assert_allclose(np.concatenate(parts), cell.predicted(run)["y"], rtol=1e-4, atol=1e-4)


def exports_onnx(cell: Cell) -> None:
    agrees_with_onnx(cell, "run")


def exports_linear_onnx(cell: Cell) -> None:
    """Linear maps with their effects of columns, categories and holidays known ahead."""
    words = [word for word in cell.train() if not word.startswith(("model", "attn"))]
    done("train", *words, "model=linear", "trainer.refit=false", "run_dir=linear")
    if cell.kind == "category ahead":  # the graph has effects of categories to agree about
        model = Forecaster.load("linear", device="cpu")
        a, b = (model.predict(cell.history, future=cell.future.assign(word=word))["y"] for word in "ab")
        np.testing.assert_allclose(b - a, 3.0, atol=1.0)
    agrees_with_onnx(cell, "linear")


def has_quantiles(cell: Cell) -> None:
    """In order, the forecast in the middle."""
    done("train", *cell.train("loss=quantile", "loss.quantiles=[0.1,0.5,0.9]", "run_dir=quantiles"))
    found = Forecaster.load("quantiles", device="cpu").predict(cell.history, future=cell.future)
    assert (found["y_q10"] <= found["y"]).all()
    assert (found["y"] <= found["y_q90"]).all()


def serves(cell: Cell) -> None:
    """The answer to a request with the table as JSON is what Python gives, and the description names the columns."""
    tables = {"frame": cell.history} | ({} if cell.future is None else {"future": cell.future})
    body = json.dumps({name: json.loads(table.to_json(orient="records")) for name, table in tables.items()})
    with serving("checkpoint=run", "device=cpu") as served:
        described = served.ask("GET", "/describe").json["models"][0]
        answered = served.ask("POST", "/forecast", body, content_type=JSON, accept=CSV)
    statics = [name for name in COLUMNS[cell.kind] if name in ("region", "size")]
    assert described["static_covariates"] == statics
    expected = {"region": ["hill", "sea"], "word": ["a", "b"]}
    assert described["categories"] == {one: expected[one] for one in COLUMNS[cell.kind] if one in expected}
    assert described["series"] == (["s0", "s1"] if cell.has_series else [])
    Path("answer.csv").write_bytes(answered.body)
    np.testing.assert_allclose(pd.read_csv("answer.csv")["y"], cell.predicted()["y"], rtol=1e-5, atol=1e-5)


def forecasts(cell: Cell) -> None:
    """One command on the file, with a linear model; the settings of the data are the run's."""
    named = [word for word in KINDS[cell.kind] if word.startswith("dataset.")]
    more = ["dataset.categorical=[word]"] if "word" in COLUMNS[cell.kind] else []
    done("forecast", "own.csv", "model=linear", "horizon=5", "target=y", "output=whole", *named, *more)
    found = pd.read_csv("whole/forecasts/own.forecast.csv")
    assert len(found) == len(cell.predicted())
    assert np.isfinite(found["y"]).all()


def scores(cell: Cell) -> None:
    """The mean error of the forecasts, by pandas."""
    more = ["plots=false", "digits=null", *cell.given()]
    done("predict", "checkpoint=run", "input=own.csv", "output=scored", *more)
    actual = cell.frame.drop(cell.history.index)[[*cell.keys, "y"]]
    actual.to_csv("actual.csv", index=False)
    cell.history[[*cell.keys, "y"]].to_csv("past.csv", index=False)
    files = ["forecasts=scored/own.forecast.csv", "actuals=actual.csv", "history=past.csv"]
    more = ["dataset.series_col=id"] if cell.has_series else []
    done("score", *files, *more, "output=scores")
    found = json.loads(Path("scores/scores.json").read_text())["overall"]["forecast"]["mae"]
    assert found == pytest.approx((pd.read_csv("scored/own.forecast.csv")["y"].to_numpy() - actual["y"]).abs().mean())


QUICK: list[Callable[[Cell], None]] = [
    evaluates, predicts_one, predicts_many, rolls, resumes, exports, serves, forecasts, scores, has_quantiles
]  # fmt: skip
"""One for each kind, in their order and round again."""
CELLS = (
    [(kind, QUICK[place % len(QUICK)]) for place, kind in enumerate(KINDS)]
    + [pytest.param("all", command, marks=pytest.mark.slow) for command in QUICK[1:]]  # its own is the first
    + [
        pytest.param(kind, command, marks=pytest.mark.slow)
        for kind in ("category ahead", "vectors", "all")
        for command in (exports_onnx, exports_linear_onnx)
        if (kind, command) != ("vectors", exports_linear_onnx)  # the graph of a panel
    ]
)
"""Every command also with all kinds at once; graphs with those whose inputs the others lack."""


@pytest.mark.parametrize(("trained", "command"), CELLS, indirect=["trained"])
def test_every_kind_with_every_command(command: Callable[[Cell], None], cell: Cell) -> None:
    command(cell)
