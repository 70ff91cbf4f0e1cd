"""All kinds of columns at once: forecasts agree with an exported graph, whose inputs are made by its description."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from entry_points import call_export, done

from informer import Forecaster

ROWS, AHEAD, SEQ_LEN = 140, 5, 10
SETTINGS = [
    "dataset=csv", "model=tiny", "attn=full", "model.d_model=8", "model.encoder_stacks=[1]", "targets=[y]",
    f"seq_len={SEQ_LEN}", "label_len=5", f"pred_len={AHEAD}", "trainer.max_epochs=1", "trainer.batch_size=16",
    "non_negative=none", "trainer.tracker=[]",
]  # fmt: skip
KINDS = {
    "category ahead": ["future_covariates=[word]"],
    "vectors": ["dataset.series_col=id", "model.series_embedding=2"],
    "all": [
        "dataset.series_col=id", "dataset.static_covariates=[region,size]", "dataset.holidays=US", "dataset.fill=mask",
        "past_covariates=[word]", "future_covariates=[x]",
    ],
}  # fmt: skip
"""The first two have inputs of graphs that the last lacks; each kind by itself is in tests/golden."""
COLUMNS = {"category ahead": ["word"], "vectors": [], "all": ["region", "size", "word", "x"]}


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
    def history(self) -> pd.DataFrame:
        return self.frame[self.frame["date"] < self.frame["date"].unique()[ROWS]]

    @property
    def future(self) -> pd.DataFrame | None:
        """What is known of the last rows; None: nothing has to be."""
        known = {"all": ["date", "id", "x"], "category ahead": ["date", "word"]}.get(self.kind)
        return known and self.frame[known].drop(self.history.index)

    def train(self, *more: str) -> list[str]:
        return [*SETTINGS, *KINDS[self.kind], "dataset.path=own.csv", *more]

    def predicted(self, run: str = "run") -> pd.DataFrame:
        return Forecaster.load(run, device="cpu").predict(self.history, future=self.future)


def rows(kind: str) -> pd.DataFrame:
    """Two series of days, or one, with the columns of a kind; of all kinds, a tenth of the numbers is missing."""
    draw, parts = np.random.default_rng(len(kind)), []
    n, times = ROWS + AHEAD, pd.date_range("2023-10-01", periods=ROWS + AHEAD)
    for k in range(2 if "dataset.series_col=id" in KINDS[kind] else 1):
        part = pd.DataFrame({"date": times.astype(str), "id": f"s{k}", "region": ["hill", "sea"][k], "size": 3.0 + k})
        part = part.assign(word=draw.choice(["a", "b"], n), x=draw.normal(size=n))
        effects = part["x"] + 3 * (part["word"] == "b")
        parts.append(part.assign(y=effects + np.arange(n) % 7 + 10 * k + draw.normal(size=n)))
    frame = pd.concat(parts, ignore_index=True)
    if kind == "all":
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


def rolls(cell: Cell) -> None:
    """Forecasts from the last origin of all rows are those of the history, next to the actual values."""
    cell.frame.to_csv("whole.csv", index=False)
    more = ["mode=rolling", "stride=5", f"from={cell.frame['date'].unique()[ROWS - 2 * AHEAD]}", "digits=null"]
    done("predict", "checkpoint=run", "input=whole.csv", "output=rolled", *more)
    found = pd.read_csv("rolled/whole.rolling.csv")
    last = found[found["origin"] == found["origin"].max()]
    np.testing.assert_allclose(last["forecast"], cell.predicted()["y"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(last["actual"], cell.frame.drop(cell.history.index)["y"], rtol=1e-6)


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


SLOW = [
    *(("all", command) for command in (exports_onnx, exports_linear_onnx)),
    *(("category ahead", command) for command in (exports_onnx, exports_linear_onnx)),
    ("vectors", exports_onnx),
]
CELLS = [("all", evaluates), ("all", rolls), *(pytest.param(*cell, marks=pytest.mark.slow) for cell in SLOW)]


@pytest.mark.parametrize(("trained", "command"), CELLS, indirect=["trained"])
def test_every_kind_with_every_command(command: Callable[[Cell], None], cell: Cell) -> None:
    command(cell)
