"""`informer update`: the linear maps are those of a fit on all rows, older and later; scikit-learn is the oracle."""

import json
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, Outcome, call, done, refusal
from sklearn.linear_model import Ridge

from informer import checkpoint
from informer.base.runtime import resource
from informer.checkpoint.paths import REFIT, ROWS

SEQ, PRED, STRENGTH, OLD, ALL = 24, 6, 5.0, 320, 400
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


def whole(weight: np.ndarray) -> np.ndarray:
    """The map with a share of the mean: forecast = mean + map (history - mean)."""
    return weight + (1 - weight.sum(axis=0)) / SEQ


def own_map(run: Path, name: str = REFIT) -> np.ndarray:
    return checkpoint.load(run / name).weights["maps.own"][0].numpy()


def updated(*arguments: str) -> Outcome:
    return call("update", *arguments)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linear run on the first rows."""
    folder = tmp_path_factory.mktemp("older")
    sample(OLD).to_csv(folder / "old.csv", index=False)
    path = f"dataset.path={folder / 'old.csv'}"
    done("train", "dataset=csv", path, *LINEAR, "trainer.refit=true", f"run_dir={folder / 'run'}")
    return folder / "run"


@pytest.fixture
def newer(folder: Path) -> Path:
    """Only the later rows."""
    sample(ALL).iloc[OLD:].to_csv("new.csv", index=False)
    return folder / "new.csv"


def test_the_linear_part_is_that_of_all_rows(older: Path, newer: Path) -> None:
    """Red if a window over the seam is left out or counted twice, or the scored maps are fitted on the test part."""
    outcome = updated(f"checkpoint={older}", "input=new.csv", "output=run2")
    assert outcome.status == 0, outcome.err
    assert f"80 rows after {sample(OLD)['date'].iloc[-1]}" in outcome.out
    values = scaled(sample(ALL)["price"].to_numpy())
    of_all, before = whole(ridge(values)), whole(ridge(values[: -max(PRED, (ALL - OLD) // 5)]))
    np.testing.assert_allclose(own_map(Path("run2")), of_all, atol=1e-6)
    np.testing.assert_allclose(own_map(Path("run2"), "best.pt"), before, atol=1e-6)
    assert not np.allclose(before, of_all, atol=1e-6)


def test_chosen_settings_are_kept(folder: Path, newer: Path) -> None:
    """Red if an update chooses again: its parts are others, and so are the settings that are best on them."""
    sample(OLD).to_csv("old.csv", index=False)
    free = [word for word in LINEAR if word != MAPS]
    done("train", "dataset=csv", "dataset.path=old.csv", *free, "run_dir=run")
    assert updated("checkpoint=run", "input=new.csv", "output=a").status == 0
    before, after = (checkpoint.load(Path(run)) for run in ("run", "a"))
    assert before.config["model"]["maps"] == []
    assert after.config["model"]["maps"] == before.data["maps"] == after.data["maps"]
    assert before.data["maps"][0]["lookback"] <= SEQ


def test_two_updates_are_one(older: Path, newer: Path) -> None:
    """Red if an updated run does not keep what the next update needs, or does not name the run before it."""
    sample(ALL).to_csv("all.csv", index=False)
    sample(360).to_csv("some.csv", index=False)
    for run, file, output in ((older, "some.csv", "b"), (Path("b"), "all.csv", "c"), (older, "all.csv", "d")):
        assert updated(f"checkpoint={run}", f"input={file}", f"output={output}").status == 0
    np.testing.assert_allclose(own_map(Path("c")), own_map(Path("d")), rtol=0, atol=1e-6)
    assert checkpoint.load(Path("c", REFIT)).data["refit"] == ALL - SEQ - PRED + 1
    parent = json.loads(Path("c/run.json").read_text())["parent"]
    assert parent["run"] == "b"
    assert parent["digest"] == checkpoint.load(Path("b")).digest
    assert parent["data_sha256"] == sha256(Path("b", ROWS).read_bytes()).hexdigest()
    assert parent["updates"] == 2
    assert parent["rows"] == 40


def test_an_updated_run_is_a_run_like_any_other(older: Path, newer: Path) -> None:
    """Red if its test part is one that it saw, or a command cannot read it."""
    assert updated(f"checkpoint={older}", "input=new.csv", "output=run2").status == 0
    done("eval", "checkpoint=run2", "plots=none")
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
        done(*command)
    assert "made by informer update" in refusal("train", "resume=run2")


@pytest.mark.parametrize("network", [False, True])
def test_intervals_are_from_rows_that_the_model_has_not_seen(older: Path, newer: Path, network: bool) -> None:
    """Red if a block is left out of the calibration of maps, or that of a network has a window of its training part."""
    run, n = older, ALL - 16 - SEQ - PRED + 1  # each window before the test part, forecast by maps of the other blocks
    if network:
        options = ["features=S", "target=price", "model.embed=none", "trainer.max_steps=2", "run_dir=run"]
        run, n = Path("run"), ALL - 16 - 250 - PRED + 1  # after 250 rows of training and validation
        done("train", "dataset=csv", f"dataset.path={older.parent / 'old.csv'}", *SMALL, *options)
    outcome = updated(f"checkpoint={run}", "input=new.csv", "output=run2")
    assert outcome.status == 0, outcome.err
    calibration = checkpoint.load(Path("run2")).calibration
    assert calibration is not None
    assert int(calibration["windows"]) == n


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
    assert checkpoint.load(Path("b", REFIT)).data["refit"] == ALL - SEQ - PRED + 1


@pytest.mark.parametrize(
    ("rows", "words"), [(slice(0, OLD), "expected rows after"), (slice(OLD, OLD + 12), "2 pred_len + 1 = 13 rows")]
)
def test_too_few_rows_are_refused(older: Path, folder: Path, rows: slice, words: str) -> None:
    sample(ALL).iloc[rows].to_csv("few.csv", index=False)
    outcome = updated(f"checkpoint={older}", "input=few.csv", "output=a", "steps=2")
    assert outcome.status == 2
    assert words in outcome.err
    assert outcome.err.count("\n") == 1
    assert not Path("a").exists()


def test_rows_of_training_that_changed_are_named_by_the_user(folder: Path, newer: Path) -> None:
    """Red if a changed file is read unasked, or `history` may end before the test part or is not cut after it."""
    sample(OLD).to_csv("old.csv", index=False)
    done("train", "dataset=csv", "dataset.path=old.csv", *LINEAR, "run_dir=run")
    sample(ALL).to_csv("old.csv", index=False)
    outcome = updated("checkpoint=run", "input=old.csv", "output=a")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "old.csv has changed since training" in outcome.err
    assert "set history=old.csv" in outcome.err
    outcome = updated("checkpoint=run", "input=old.csv", "history=old.csv", "output=a")
    assert outcome.status == 0, outcome.err
    expected = whole(ridge(scaled(sample(ALL)["price"].to_numpy())))
    np.testing.assert_allclose(own_map(Path("a")), expected, atol=1e-6)
    assert json.loads(Path("a/run.json").read_text())["parent"]["rows"] == ALL - OLD
    sample(OLD - 1).to_csv("short.csv", index=False)
    outcome = updated("checkpoint=run", "input=new.csv", "history=short.csv", "output=b")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert f"expected rows up to {sample(OLD)['date'].iloc[-1]}" in outcome.err
    Path("old.csv").unlink()
    outcome = updated("checkpoint=run", "input=new.csv", "output=b")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "training data not found; set history=FILE" in outcome.err
    assert not Path("b").exists()


@pytest.mark.parametrize("command", ["update", "watch"])
def test_times_with_and_without_zone_are_not_joined(older: Path, folder: Path, command: str) -> None:
    """Red if the rows are compared first, which ends in a traceback."""
    table = sample(ALL).iloc[OLD:]
    table.assign(date=table["date"] + "+00:00").to_csv("zone.csv", index=False)
    line = refusal(command, f"checkpoint={older}", "input=zone.csv", "output=a")
    assert "zone.csv: expected times without a time zone as in training, found times in UTC" in line


def test_series_keep_their_scales_and_order(folder: Path) -> None:
    """Red if later windows of a series are added to another's, or series have another weight than 1 / their error."""
    table = sample(2 * ALL)
    parts = [table.iloc[:ALL], table.iloc[ALL:].assign(date=table["date"].iloc[:ALL].to_numpy())]
    named = [
        part.assign(shop=name, price=(1 + i) * part["price"])
        for i, (part, name) in enumerate(zip(parts, "ab", strict=True))
    ]
    pd.concat([part.iloc[:OLD] for part in named]).to_csv("old.csv", index=False)
    # the other order, and a series that training did not have and that is too short
    extra = named[0].assign(shop="c").iloc[: OLD + 28]
    pd.concat([part.iloc[OLD:] for part in (named[1], named[0], extra)]).to_csv("new.csv", index=False)
    common = ["dataset=csv", "dataset.path=old.csv", "dataset.series_col=shop", *LINEAR, "scaler.per_series=true"]
    done("train", *common, "run_dir=run")
    outcome = updated("checkpoint=run", "input=new.csv", "output=run2")
    assert outcome.status == 0, outcome.err
    assert "left out new series with fewer than 30 rows for training: c" in " ".join(outcome.out.split())
    values, train = [scaled(part["price"].to_numpy()) for part in named], ALL - 32
    weights = [1 / np.mean((one[24:train] - one[: train - 24]) ** 2) for one in values]
    x, y = (np.concatenate(each) for each in zip(*map(windows, values), strict=True))
    sample_weight = np.repeat(np.array(weights) / np.mean(weights), len(x) // 2)
    square = (sample_weight[:, None] * x**2).sum() / sample_weight.sum() / SEQ
    fitted = Ridge(STRENGTH * square, fit_intercept=False, tol=0).fit(x, y, sample_weight)
    np.testing.assert_allclose(own_map(Path("run2")), whole(fitted.coef_.T), atol=1e-5)
    done("eval", "checkpoint=run2", "plots=none")


def shops(table: pd.DataFrame, names: str) -> pd.DataFrame:
    """The same rows as each of these shops, of other sizes."""
    return pd.concat([table.assign(shop=name, price=(1 + ord(name) % 7) * table["price"]) for name in names])


def test_closed_and_new_shops_stop_no_update(folder: Path) -> None:
    """Three of ten shops close, one of them without a row in the new file, one is new; then a day comes with a single
    row, on which one shop is missing. Red if an update or `watch` fails, the rows of a closed shop leave the fit of the
    shared map, or a shop without a new row has test windows."""
    table = sample(ALL + 1)
    shops(table.iloc[:OLD], "abcdefghij").to_csv("old.csv", index=False)
    later = [shops(table.iloc[OLD:ALL], "abcdefg"), shops(table.iloc[OLD : OLD + 20], "hi"), shops(table[:ALL], "n")]
    pd.concat(later).to_csv("new.csv", index=False)
    common = ["dataset=csv", "dataset.path=old.csv", "dataset.series_col=shop", *LINEAR, "scaler.per_series=true"]
    done("train", *common, "run_dir=run")
    outcome = updated("checkpoint=run", "input=new.csv", "output=run2")
    assert outcome.status == 0, outcome.err
    said = " ".join(outcome.out.split())
    assert f"no later rows of j ({table['date'][OLD - 1]}): trained on as before" in said
    assert "new series, trained on from now on: n" in said
    n_windows = 8 * (ALL - SEQ - PRED + 1) + 2 * (OLD + 20 - SEQ - PRED + 1) + OLD - SEQ - PRED + 1
    assert checkpoint.load(Path("run2", REFIT)).data["refit"] == n_windows
    scored = pd.read_csv("run2/metrics_by_series.csv")
    assert sorted(scored["series"].unique()) == [*"abcdefgn"]
    # whatever the shop, the same values once scaled, but for the rows of training of the new one
    shops(table.iloc[ALL:], "abcdefn").to_csv("day.csv", index=False)
    outcome = updated("checkpoint=run2", "input=day.csv", "output=run3")
    assert outcome.status == 0, outcome.err
    # less the windows of the shop without a row that end within the test part, where it has none of its own
    assert checkpoint.load(Path("run3", REFIT)).data["refit"] == n_windows + 7 - (PRED - 1)
    assert "before the update" not in outcome.out  # whose rows of the test part the older maps have seen
    done("eval", "checkpoint=run3", "plots=none")
    assert call("watch", "checkpoint=run", "input=new.csv").status in (0, 10, 11, 12)
    done("predict", "checkpoint=run3", "input=run3/rows.csv")
    assert "n" in pd.read_csv("forecasts/rows.forecast.csv")["shop"].unique()


@pytest.mark.parametrize("steps", [0, 3])
def test_a_network_stays_or_goes_on(folder: Path, newer: Path, steps: int) -> None:
    """Fails if the network changes without steps, does not change with them, or its optimiser starts from zero."""
    sample(OLD).to_csv("old.csv", index=False)
    network = [*SMALL, "model.skip=maps", "model.embed=none", MAPS, "trainer.max_steps=4", "trainer.combine=[naive]"]
    done("train", "dataset=csv", "dataset.path=old.csv", *network, "features=S", "target=price", "run_dir=run")
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


@pytest.mark.parametrize("entry", ["until", "maps"])
@pytest.mark.parametrize("value", [7, "text", [1], {}, [{"lookback": 10**9}]])
def test_forged_facts_are_refused_in_one_line(older: Path, newer: Path, entry: str, value: object) -> None:
    """Fails if an entry that update reads is used without a check."""
    shutil.copytree(older, "run")
    saved = checkpoint.load(Path("run"))
    checkpoint.save(Path("run/best.pt"), replace(saved, data=saved.data | {entry: value}))
    outcome = updated("checkpoint=run", "input=new.csv", "output=a")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1), outcome.err
    assert not Path("a").exists()


def test_maps_with_effects_and_gaps_are_fitted_again(folder: Path) -> None:
    """Red if the effect of what is known ahead, or a missing value, is lost on the way through the joined rows."""
    table = sample(ALL).assign(promo=(np.arange(ALL) % 7 == 0).astype(int))
    table["price"] += 0.5 * table["price"].std() * table["promo"]
    table.loc[[100, OLD + 20], "price"] = np.nan
    table.iloc[:OLD].to_csv("old.csv", index=False)
    table.iloc[OLD:].to_csv("new.csv", index=False)
    options = ["features=MS", "target=price", "future_covariates=[promo]", "dataset.columns=[price,promo]"]
    common = ["dataset=csv", "dataset.path=old.csv", *LINEAR[:-4], *options, "model.embed=none", "dataset.fill=mask"]
    done("train", *common, "run_dir=run")
    outcome = updated("checkpoint=run", "input=new.csv", "output=run2")
    assert outcome.status == 0, outcome.err
    saved = [checkpoint.load(Path(run)) for run in ("run", "run2", "run2/refit.pt")]
    effects = [float(one.weights["maps.effects"].abs().max()) for one in saved]
    assert effects[1:] == pytest.approx([effects[0]] * 2, rel=0.2)
    assert pd.read_csv("run2/rows.csv")["price"].isna().sum() == 2
    done("eval", "checkpoint=run2", "plots=none")


def test_an_impossible_reading_asks(older: Path, folder: Path) -> None:
    """With each answer that the error names. Red if one of them fails, or if the other rows change."""
    rows = sample(ALL).iloc[OLD:]
    rows.iloc[-1, rows.columns.get_loc("price")] = 1e9
    rows.to_csv("new.csv", index=False)
    given = [f"checkpoint={older}", "input=new.csv"]
    outcome = updated(*given, "output=asked")
    assert outcome.status == 2
    line = f"error: new.csv, {rows['date'].iloc[-1]}:00, column 'price': 1000000000 is far from all others"
    assert line in outcome.err
    assert not Path("asked").exists()
    answers = "dataset.outliers=missing dataset.fill=ffill", "dataset.outliers=keep"
    for name, answer in zip(("missing", "kept"), answers, strict=True):
        assert answer in outcome.err
        assert updated(*given, f"output={name}", *answer.split()).status == 0
    maps = {name: own_map(Path(name), "best.pt") for name in ("missing", "kept")}
    np.testing.assert_array_equal(maps["missing"], maps["kept"])  # fitted on the rows before it
    prices = pd.read_csv(Path("missing", ROWS))["price"].to_numpy()
    assert prices[-1] == prices[-2]
    rows["price"] = 1e6 + np.arange(len(rows))  # a new level is none
    rows.to_csv("new.csv", index=False)
    assert updated(*given, "output=level").status == 0
