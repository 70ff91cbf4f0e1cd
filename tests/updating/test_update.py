"""`informer update`: a run with later rows is that on all rows, without the older ones; scikit-learn is the oracle."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, Outcome, call
from sklearn.linear_model import Ridge

from informer import checkpoint
from informer.base.runtime import resource
from informer.checkpoint.format import content_digest, read
from informer.checkpoint.paths import KEPT, REFIT, ROWS
from informer.config.model import WindowSizes
from informer.linear.maps import KeptFit, Reads
from informer.linear.select import fit_shared, packed, unpacked
from informer.linear.solve import Layout
from informer.training import update_state

SEQ, PRED, STRENGTH, OLD, ALL = 24, 6, 5.0, 320, 400
SIZES = WindowSizes(seq_len=SEQ, label_len=11, pred_len=PRED)
MAPS = "model.maps=[{lookback:24,last:false,taper:0.0,shared:5.0,groups:{}}]"
LINEAR = ["model=linear", *SMALL[1:], "features=S", "target=price", MAPS, "model.embed=none"]


def sample(rows: int) -> pd.DataFrame:
    return pd.read_csv(resource("data/sample.csv")).head(rows)


def scaled(values: np.ndarray, rows: int = 200) -> np.ndarray:
    """As a model reads them: in single precision, by the training rows of the older run."""
    return ((values - values[:rows].mean()) / values[:rows].std()).astype(np.float32).astype(np.float64)


def windows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Histories and futures of all windows less the histories' means."""
    starts = range(len(values) - SEQ - PRED + 1)
    x = np.stack([values[start : start + SEQ] for start in starts])
    y = np.stack([values[start + SEQ : start + SEQ + PRED] for start in starts])
    return x - x.mean(1, keepdims=True), y - x.mean(1, keepdims=True)


def ridge(values: np.ndarray) -> np.ndarray:
    x, y = windows(values)
    return Ridge(STRENGTH * (x**2).mean(), fit_intercept=False, tol=0).fit(x, y).coef_.T


def shared_map(run: Path, n_series: int = 1) -> np.ndarray:
    """The map that follows from what a run keeps, in double precision."""
    kept = kept_of(run, n_series)
    return fit_shared(kept.sums.pooled, Layout(SEQ, PRED, kept.features, kept.season, kept.repeated), kept.strengths[0])


def reads(n_series: int = 1) -> Reads:
    return Reads.of(SIZES, n_series=n_series, inputs=["price"], targets=["price"])


def kept_of(run: Path, n_series: int = 1) -> KeptFit:
    state = update_state.load(run, reads(n_series))
    assert state is not None
    assert state.fit is not None
    return state.fit


def updated(*arguments: str) -> Outcome:
    return call("update", *arguments)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linear run on the first rows, whose file is gone."""
    folder = tmp_path_factory.mktemp("older")
    sample(OLD).to_csv(folder / "old.csv", index=False)
    path = f"dataset.path={folder / 'old.csv'}"
    outcome = call("train", "dataset=csv", path, *LINEAR, "trainer.refit=true", f"run_dir={folder / 'run'}")
    assert outcome.status == 0, outcome.err
    (folder / "old.csv").unlink()
    return folder / "run"


@pytest.fixture
def newer(folder: Path) -> Path:
    """Only the later rows."""
    sample(ALL).iloc[OLD:].to_csv("new.csv", index=False)
    return folder / "new.csv"


def test_the_linear_part_is_that_of_all_rows(older: Path, newer: Path) -> None:
    """Red if a window over the seam is left out or counted twice, or if the older rows are needed."""
    outcome = updated(f"checkpoint={older}", "input=new.csv", "output=run2")
    assert outcome.status == 0, outcome.err
    assert f"80 rows after {sample(OLD)['date'].iloc[-1]}" in outcome.out
    values = scaled(sample(ALL)["price"].to_numpy())
    expected = ridge(values)
    np.testing.assert_allclose(shared_map(Path("run2")), expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    # with a share of the mean: forecast = mean + map (history - mean)
    whole = expected + (1 - expected.sum(axis=0)) / SEQ
    of_all, scored = (checkpoint.load(Path("run2", name)) for name in (REFIT, "best.pt"))
    np.testing.assert_allclose(of_all.weights["own"][0].numpy(), whole, atol=1e-6)
    test = max(PRED, (ALL - OLD) // 5)
    before = ridge(values[:-test])
    np.testing.assert_allclose(scored.weights["own"][0].numpy(), before + (1 - before.sum(axis=0)) / SEQ, atol=1e-6)
    assert not np.allclose(before, expected, atol=1e-6)


def test_two_updates_are_one(older: Path, newer: Path) -> None:
    """Red if an updated run does not keep what the next update needs, or does not name the run before it."""
    sample(ALL).to_csv("all.csv", index=False)
    sample(360).to_csv("some.csv", index=False)
    for run, file, output in ((older, "some.csv", "b"), (Path("b"), "all.csv", "c"), (older, "all.csv", "d")):
        assert updated(f"checkpoint={run}", f"input={file}", f"output={output}").status == 0
    np.testing.assert_allclose(shared_map(Path("c")), shared_map(Path("d")), rtol=0, atol=1e-10)
    assert kept_of(Path("c")).sums.pooled.windows == ALL - SEQ - PRED + 1
    parent = json.loads(Path("c/run.json").read_text())["parent"]
    assert parent["run"] == "b"
    assert parent["digest"] == checkpoint.load(Path("b")).digest
    assert parent["updates"] == 2
    assert parent["rows"] == 40


def test_an_updated_run_is_a_run_like_any_other(older: Path, newer: Path) -> None:
    """Red if its test part is one that it saw, or a command cannot read it."""
    assert updated(f"checkpoint={older}", "input=new.csv", "output=run2").status == 0
    outcome = call("eval", "checkpoint=run2", "plots=none")
    assert outcome.status == 0, outcome.err
    scores = [
        json.loads(Path(name).read_text())["scores"]["linear"]
        for name in ("run2/metrics.json", "run2/eval/metrics.json")
    ]
    assert scores[0] == scores[1]
    assert json.loads(Path("run2/metrics.json").read_text())["windows"] == 16 - PRED + 1
    for command in (
        ("predict", "checkpoint=run2", "input=new.csv", "intervals=[80]"), ("compare", "run2", str(older)),
        ("export", "checkpoint=run2", "output=model.safetensors"), ("report", "run2"),
    ):  # fmt: skip
        outcome = call(*command)
        assert outcome.status == 0, outcome.err
    outcome = call("train", "resume=run2")
    assert outcome.status == 2
    assert "made by informer update" in outcome.err
    assert outcome.err.count("\n") == 1


def test_intervals_are_from_later_windows_first(older: Path, newer: Path) -> None:
    """Red if errors of older windows are dropped although later ones are few, or later ones are not added."""
    assert updated(f"checkpoint={older}", "input=new.csv", "output=run2").status == 0
    before, after = (update_state.load(run, reads()) for run in (older, Path("run2")))
    assert before is not None
    assert after is not None
    assert before.errors is not None
    assert after.errors is not None
    # later rows less those of the test part; only windows whose whole horizon is later
    n = 80 - 16 - PRED + 1
    assert len(after.errors.errors) == len(before.errors.errors) + n
    torch.testing.assert_close(after.errors.errors[:-n], before.errors.errors)
    calibration = checkpoint.load(Path("run2")).calibration
    assert calibration is not None
    assert int(calibration["windows"]) == len(after.errors.errors)


def test_changed_rows_and_gaps_are_reported(older: Path, folder: Path) -> None:
    """Red if a file that is not a continuation passes for one."""
    table = sample(ALL)
    table.loc[300, "price"] += 1
    table.to_csv("changed.csv", index=False)
    outcome = updated(f"checkpoint={older}", "input=changed.csv", "output=a")
    assert outcome.status == 0, outcome.err
    assert "1 row of training changed since, the first at" in " ".join(outcome.out.split())
    assert json.loads(Path("a/run.json").read_text())["parent"]["changed"] == 1
    sample(ALL).iloc[OLD + 3 :].to_csv("gap.csv", index=False)
    outcome = updated(f"checkpoint={older}", "input=gap.csv", "output=b")
    assert outcome.status == 2
    assert "rows are missing between" in outcome.err
    assert not Path("b").exists()
    assert updated(f"checkpoint={older}", "input=gap.csv", "output=b", "dataset.fill=linear").status == 0
    values = pd.read_csv("b/rows.csv")
    assert len(values) == ALL - 3  # filled when they are read
    assert kept_of(Path("b")).sums.pooled.windows == ALL - SEQ - PRED + 1


@pytest.mark.parametrize(
    ("rows", "words"), [(slice(0, OLD), "expected rows after"), (slice(OLD, OLD + 12), "2 pred_len + 1 = 13 rows")]
)
def test_too_few_rows_are_refused(older: Path, folder: Path, rows: slice, words: str) -> None:
    sample(ALL).iloc[rows].to_csv("few.csv", index=False)
    outcome = updated(f"checkpoint={older}", "input=few.csv", "output=a")
    assert outcome.status == 2
    assert words in outcome.err
    assert outcome.err.count("\n") == 1
    assert not Path("a").exists()


def test_a_run_that_kept_nothing_needs_its_data(folder: Path) -> None:
    """Red if moments from the training data differ from those that a run keeps, or missing data is not named."""
    sample(OLD).to_csv("old.csv", index=False)
    sample(ALL).iloc[OLD:].to_csv("new.csv", index=False)
    common = ["dataset=csv", "dataset.path=old.csv", *LINEAR]
    assert call("train", *common, "trainer.keep=false", "run_dir=run").status == 0
    assert not any(Path("run", name).exists() for name in (KEPT, ROWS))
    outcome = updated("checkpoint=run", "input=new.csv", "output=a")
    assert outcome.status == 0, outcome.err
    expected = ridge(scaled(sample(ALL)["price"].to_numpy()))
    np.testing.assert_allclose(shared_map(Path("a")), expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    Path("old.csv").unlink()
    outcome = updated("checkpoint=run", "input=new.csv", "output=b")
    assert outcome.status == 2
    assert "this run saved no rows" in outcome.err
    assert "old.csv" in outcome.err


def test_series_keep_their_weights_and_scales(folder: Path) -> None:
    """Red if later windows of a series are added to another's, or with another weight."""
    table = sample(2 * ALL)
    parts = [table.iloc[:ALL], table.iloc[ALL:].assign(date=table["date"].iloc[:ALL].to_numpy())]
    named = [
        part.assign(shop=name, price=(1 + i) * part["price"])
        for i, (part, name) in enumerate(zip(parts, "ab", strict=True))
    ]
    pd.concat([part.iloc[:OLD] for part in named]).to_csv("old.csv", index=False)
    # the other order, and a series that training did not have
    extra = named[0].assign(shop="c")
    pd.concat([part.iloc[OLD:] for part in (named[1], named[0], extra)]).to_csv("new.csv", index=False)
    common = ["dataset=csv", "dataset.path=old.csv", "dataset.series_col=shop", *LINEAR, "scaler.per_series=true"]
    assert call("train", *common, "run_dir=run").status == 0
    outcome = updated("checkpoint=run", "input=new.csv", "output=run2")
    assert outcome.status == 0, outcome.err
    assert "left out series that were not in training: c" in " ".join(outcome.out.split())
    kept, products = kept_of(Path("run2"), 2), np.zeros((SEQ + PRED, SEQ + PRED))
    for part, weight in zip(named, kept.weights, strict=True):
        values = scaled(part["price"].to_numpy())
        rows = np.stack([values[start : start + SEQ + PRED] for start in range(ALL - SEQ - PRED + 1)])
        products += weight * rows.T @ rows
    size = SEQ + PRED
    np.testing.assert_allclose(kept.sums.pooled.products[:size, :size], products, rtol=1e-10)
    assert call("eval", "checkpoint=run2", "plots=none").status == 0


@pytest.mark.parametrize("steps", [0, 3])
def test_a_network_stays_or_goes_on(folder: Path, newer: Path, steps: int) -> None:
    """Fails if the network changes without steps, does not change with them, or its optimiser starts from zero."""
    sample(OLD).to_csv("old.csv", index=False)
    network = [*SMALL, "model.skip=maps", "model.embed=none", MAPS, "trainer.max_steps=4", "trainer.combine=true"]
    outcome = call(
        "train", "dataset=csv", "dataset.path=old.csv", *network, "features=S", "target=price", "run_dir=run"
    )
    assert outcome.status == 0, outcome.err
    outcome = updated(
        "checkpoint=run", "input=new.csv", "output=run2", f"steps={steps}", *(["lr=0.01"] if steps else [])
    )
    assert outcome.status == 0, outcome.err
    before, after, last = (checkpoint.load(Path(one)) for one in ("run", "run2", "run2/last.pt"))
    own = [name for name in before.weights if not name.startswith("maps.")]
    assert last.training is not None
    count = {float(part["step"]) for part in last.training["optimizer"]["state"].values()}
    assert count == {4.0 + steps}
    if not steps:
        assert all(torch.equal(before.weights[name], after.weights[name]) for name in own)
    assert any(not torch.equal(before.weights[name], after.weights[name]) for name in after.weights)
    assert after.step == before.step + steps


def forged(content: dict[str, object], path: tuple[str, ...], value: object) -> dict[str, object]:
    node = content
    for key in path[:-1]:
        node = node[key]  # type: ignore[assignment]
    node[path[-1]] = value
    return content


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("fit",), {}),
        (("fit", "season"), 0),
        (("fit", "strengths"), []),
        (("fit", "strengths"), ["text"]),
        (("fit", "weights"), torch.ones(7, dtype=torch.float64)),
        (("fit", "pooled"), torch.zeros(3, dtype=torch.float64)),
        (("fit", "pooled_windows"), -1.0),
        (("fit", "features"), {}),
        (("fit", "features", "recent"), -1),
        (("fit", "features", "recent"), 1 << 40),
        (("fit", "features", "cycles"), ["decade"]),
        (("fit", "features", "fields"), [1]),
        (("fit", "features", "fields"), ["hour"]),
        (("fit", "features", "n_columns"), 2),
        (("fit", "features", "kind"), "other"),
        (("repeated",), [SEQ] * PRED),
        (("errors",), {}),
        (("errors", "errors"), torch.full((5, PRED, 1), float("nan"))),
        (("errors", "lag"), 0),
        (("digest",), None),
    ],
)
def test_what_is_no_kept_file_is_refused_in_one_line(
    older: Path, newer: Path, path: tuple[str, ...], value: object
) -> None:
    """Fails if an entry is used without a check."""
    shutil.copytree(older, "run")
    content = read(Path("run", KEPT))
    content = forged({name: part for name, part in content.items() if name != "digest"}, path, value)
    Path("run/run.json").unlink()
    torch.save({"digest": content_digest(content)} | content, Path("run", KEPT))
    outcome = updated("checkpoint=run", "input=new.csv", "output=a")
    assert outcome.status == 2, outcome.out
    assert outcome.err.count("\n") == 1, outcome.err
    assert not Path("a").exists()


def test_a_kept_file_of_another_run_is_refused(older: Path, newer: Path) -> None:
    shutil.copytree(older, "run")
    content = {name: part for name, part in read(Path("run", KEPT)).items() if name != "digest"} | {"repeated": None}
    torch.save(content | {"digest": content_digest(content)}, Path("run", KEPT))
    outcome = updated("checkpoint=run", "input=new.csv", "output=a")
    assert outcome.status == 2
    assert "expected the file that" in outcome.err


def test_a_triangle_is_the_matrix() -> None:
    root = np.random.default_rng(0).normal(size=(5, 5))
    np.testing.assert_array_equal(unpacked(packed(root + root.T), 5), root + root.T)
