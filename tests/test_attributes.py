"""Attributes of series from a file of their own: the same numbers as where pandas merges them into the rows."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from entry_points import assert_same_weights, call, done, refused
from forgery import content_of, write_forged

from informer import Forecaster, checkpoint

STORES = {"001": ("hill", 3.5, 2), "NA": ("sea", 12.25, 7), "s2": ("hill", 0.5, 2), "s3": ("city", 7.0, 5)}
"""Region, size and level of each store; names as people write them."""
ROWS = 140
SETTINGS = [
    "dataset=csv", "dataset.series_col=store", "model=tiny", "attn=full", "model.d_model=8", "model.encoder_stacks=[1]",
    "targets=[sales]", "seq_len=10", "label_len=5", "pred_len=5", "trainer.max_epochs=1", "trainer.batch_size=32",
    "non_negative=none", "trainer.tracker=[]", "dataset.categorical=[level]",
]  # fmt: skip
OWN = [*SETTINGS, "dataset.path=rows.csv", "dataset.attributes=stores.csv"]
MERGED = [*SETTINGS, "dataset.path=merged.csv", "dataset.static_covariates=[region,size,level]"]


def rows(names: Iterator[str] | list[str], seed: int = 0, n: int = ROWS) -> pd.DataFrame:
    draw, parts = np.random.default_rng(seed), []
    for k, name in enumerate(names):
        part = pd.DataFrame({"date": pd.date_range("2023-01-01", periods=n), "store": name})
        parts.append(part.assign(sales=np.arange(n) % 7 + 3 * k + draw.normal(size=n)))
    return pd.concat(parts, ignore_index=True)


def attributes(names: list[str] | None = None) -> pd.DataFrame:
    frame = pd.DataFrame.from_dict(STORES, orient="index", columns=["region", "size", "level"])
    return frame.loc[names or list(STORES)].rename_axis("store").reset_index()


def merged(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.merge(attributes(), on="store", how="left")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of rows and attributes, the same merged by pandas, and a run on each."""
    folder = tmp_path_factory.mktemp("stores")
    frame = rows(list(STORES))
    frame.to_csv(folder / "rows.csv", index=False)
    merged(frame).to_csv(folder / "merged.csv", index=False)
    attributes(["s3", "NA", "001", "s2"]).to_csv(folder / "stores.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done("train", *OWN, "run_dir=own")
        done("train", *MERGED, "run_dir=merged")
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    return place


def test_training_gives_the_same_bits(here: Path) -> None:
    """Red if a value goes to another series, or a category or scale differs from that of merged columns."""
    assert_same_weights("own", "merged")
    loaded, expected = checkpoint.load(Path("own")), checkpoint.load(Path("merged"))
    assert (loaded.inputs, loaded.scaler) == (expected.inputs, expected.scaler)
    assert loaded.categories == expected.categories == {"region": ["city", "hill", "sea"], "level": ["2", "5", "7"]}
    assert loaded.config["dataset"]["static_covariates"] == ["region", "size", "level"]
    assert Path("own/metrics.json").read_bytes() == Path("merged/metrics.json").read_bytes()


@pytest.mark.parametrize(
    "kind", ["xlsx", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("parquet", "memory"))]
)
def test_files_of_other_kinds(kind: str, here: Path) -> None:
    """Red if a workbook or parquet file is read otherwise; an address is saved as it was named."""
    table, path = attributes(), f"stores.{kind}"
    if kind == "parquet":
        table.to_parquet(path, index=False)
    elif kind == "xlsx":
        table.to_excel(path, index=False)
    else:
        fsspec = pytest.importorskip("fsspec")
        path = "memory://attributes/stores.csv"
        fsspec.filesystem("memory").pipe_file("/attributes/stores.csv", Path("stores.csv").read_bytes())
    done("train", *OWN, f"dataset.attributes={path}", f"run_dir={kind}")
    assert_same_weights(kind, "merged")
    assert checkpoint.load(Path(kind)).config["dataset"]["attributes"] == path


def test_only_the_named_columns(here: Path) -> None:
    """Red if a column that static_covariates does not name is read; the others may come with the rows."""
    merged(rows(list(STORES)))[["date", "store", "level", "sales"]].to_csv("level.csv", index=False)
    named = ["dataset.static_covariates=[size,level]", "run_dir=named"]
    attributes()[["store", "region", "size"]].to_csv("two.csv", index=False)
    done("train", *OWN, "dataset.path=level.csv", "dataset.attributes=two.csv", *named)
    saved = checkpoint.load(Path("named"))
    assert saved.inputs == ["level", "sales", "size"]
    assert list(saved.data["attributes"]["values"]) == ["size"]


def test_no_file_is_needed_afterwards(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a command needs the file of attributes, which is not there, or gives other numbers than merged rows."""
    for name in ("own", "merged"):
        shutil.copytree(name, tmp_path / name)
    for name in ("rows.csv", "merged.csv"):
        shutil.copy(name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for run, file in (("own", "rows"), ("merged", "merged")):
        done("eval", f"checkpoint={run}", f"dataset.path={file}.csv", "plots=none", f"output=again_{run}")
        job = [f"checkpoint={run}", f"input={file}.csv", "digits=null"]
        done("predict", *job, f"output=ahead_{run}", "plots=false")
        done("predict", *job, f"output=rolled_{run}", "mode=rolling", "stride=5")
        done("export", f"checkpoint={run}", f"output={run}.safetensors")
    for kind, found, expected in (
        ("again", "metrics.csv", "metrics.csv"),
        ("ahead", "rows.forecast.csv", "merged.forecast.csv"),
        ("rolled", "rows.rolling.csv", "merged.rolling.csv"),
    ):
        assert Path(f"{kind}_own", found).read_bytes() == Path(f"{kind}_merged", expected).read_bytes()
    frame = rows(list(STORES))
    exported = Forecaster.load("own.safetensors", device="cpu").predict(frame)
    pd.testing.assert_frame_equal(exported, Forecaster.load("merged", device="cpu").predict(merged(frame)))
    # rows that have the columns themselves
    pd.testing.assert_frame_equal(exported, Forecaster.load("own", device="cpu").predict(merged(frame)))


@pytest.mark.slow
def test_a_stopped_run_goes_on(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if resume needs the file once there is a checkpoint; before, it must be named, whatever the run says."""
    shutil.copytree("own", tmp_path / "part")
    shutil.copy("rows.csv", tmp_path / "rows.csv")
    done("train", *MERGED, "trainer.max_epochs=2", f"run_dir={tmp_path / 'whole'}")
    monkeypatch.chdir(tmp_path)
    attributes().assign(size=[4.5, 1.0, 2.0, 3.0]).to_csv("others.csv", index=False)
    refused(
        call("train", "resume=part", "trainer.max_epochs=2", "dataset.path=rows.csv", "dataset.attributes=others.csv"),
        "expected the attributes of series that the run began with, dataset.attributes=others.csv has others",
    )
    done("train", "resume=part", "trainer.max_epochs=2", "dataset.path=rows.csv")
    assert_same_weights("part", "whole")
    for name in ("best.pt", "last.pt", "metrics.json", "metrics.csv"):
        Path("part", name).unlink()
    attributes().to_csv("stores.csv", index=False)  # where the run says that they are
    refused(call("train", "resume=part", "dataset.path=rows.csv"), "name their file again: dataset.attributes=FILE")
    named = ["dataset.path=rows.csv", "dataset.attributes=stores.csv"]
    done("train", "resume=part", *named)
    assert_same_weights("part", "whole")


@pytest.mark.slow
def test_a_watched_run(here: Path) -> None:
    """Red if later rows need the columns: the scores are those of merged rows."""
    longer = rows(list(STORES), n=ROWS + 30)
    longer.to_csv("later.csv", index=False)
    merged(longer).to_csv("merged_later.csv", index=False)
    for run, file, words in (("own", "later", OWN), ("merged", "merged_later", MERGED)):
        words = [word for word in words if not word.startswith(("model", "attn", "trainer"))]
        done("train", *words, "model=linear", f"run_dir=linear_{run}")
        done("watch", f"checkpoint=linear_{run}", f"input={file}.csv", f"output=watched_{run}")
    seen = [json.loads(Path(f"watched_{run}/watch.json").read_text()) for run in ("own", "merged")]
    assert seen[0]["periods"] == seen[1]["periods"]


@pytest.mark.slow
def test_tables_in_memory(here: Path) -> None:
    """Red if `attributes` of Python is not what a file is, in fit, predict, predict_many, backtest, score or plot."""
    frame, table = rows(list(STORES)), attributes()
    settings: dict[str, Any] = dict(word.split("=", 1) for word in SETTINGS)
    listed = {name: json.loads(settings[name].replace("[", '["').replace("]", '"]')) for name in ("targets",)}
    settings |= listed | {"dataset.categorical": ["level"], "model.encoder_stacks": [1], "trainer.tracker": []}
    del settings["dataset"]
    for given in (table, table.assign(level=table["level"].astype(str)), "stores.csv"):
        model = Forecaster.fit(frame, attributes=given, **settings)
        expected = Forecaster.load("merged", device="cpu")
        pd.testing.assert_frame_equal(model.predict(frame), expected.predict(merged(frame)))
    new = frame.replace({"store": {"s2": "new"}})
    of_new = table[table["store"] == "s2"].assign(store="new")
    twin = merged(frame).replace({"store": {"s2": "new"}})
    for given in (of_new, None):
        if given is None:
            of_new.to_csv("new.csv", index=False)
        one: Any = "new.csv" if given is None else given
        pd.testing.assert_frame_equal(model.predict(new, attributes=one), expected.predict(twin))
        (many,) = model.predict_many([new], attributes=one)
        pd.testing.assert_frame_equal(many, expected.predict_many([twin])[0])
        pd.testing.assert_frame_equal(model.backtest(new, attributes=one), expected.backtest(twin))
        assert model.score(new, attributes=one) == expected.score(twin)
        drawn = model.plot(new, attributes=one).axes[0].lines[-1].get_ydata()
        np.testing.assert_array_equal(drawn, expected.plot(twin).axes[0].lines[-1].get_ydata())


def test_new_series_at_prediction(here: Path) -> None:
    """Fails if a series without attributes gets those of another; a series with unknown categories only gets the entry
    for unknown ones."""
    frame = rows(["001", "new"])
    frame.to_csv("with_new.csv", index=False)
    predict = ["checkpoint=own", "input=with_new.csv", "output=new", "plots=false", "digits=null"]
    refused(
        call("predict", *predict),
        f"with_new.csv, row {ROWS + 2}, column 'store': no region, size, level of the series 'new', which training did "
        "not have; add these columns, or name a file with a row for it: dataset.attributes=FILE",
    )
    attributes(["s3"]).assign(store="new").to_csv("new.csv", index=False)
    done("predict", *predict, "dataset.attributes=new.csv")
    given = frame.merge(pd.concat([attributes(), attributes(["s3"]).assign(store="new")]), on="store")
    expected = Forecaster.load("merged", device="cpu").predict(given)
    np.testing.assert_allclose(pd.read_csv("new/with_new.forecast.csv")["sales"], expected["sales"], rtol=1e-6)
    # a file that changes between two calls is read again
    model = Forecaster.load("own", device="cpu")
    for store in ("s2", "s3"):
        attributes([store]).assign(store="new").to_csv("new.csv", index=False)
        given = frame.merge(pd.concat([attributes(), attributes([store]).assign(store="new")]), on="store")
        expected = Forecaster.load("merged", device="cpu").predict(given)
        pd.testing.assert_frame_equal(model.predict(frame, dataset={"attributes": "new.csv"}), expected)
    attributes()[["store", "region"]].to_csv("regions.csv", index=False)
    words = [word for word in OWN if not word.startswith("dataset.categorical")]
    done("train", *words, "dataset.attributes=regions.csv", "run_dir=regions")
    model = Forecaster.load("regions", device="cpu")
    by_region = dict(zip(STORES, (region for region, *_ in STORES.values()), strict=True)) | {"new": "moon"}
    pd.testing.assert_frame_equal(
        model.predict(frame), model.predict(frame.assign(region=frame["store"].map(by_region)))
    )


@pytest.mark.slow
def test_a_forecast_in_one_command(here: Path) -> None:
    """Red if `informer forecast` or `informer inspect` do not know the columns of the file."""
    one = ["dataset.series_col=store", "dataset.attributes=stores.csv", "dataset.categorical=[level]"]
    done("forecast", "rows.csv", "model=linear", "horizon=5", "target=sales", "output=whole", *one)
    assert set(checkpoint.load(Path("whole")).static_covariates) == {"region", "size", "level"}
    assert len(pd.read_csv("whole/forecasts/rows.forecast.csv")) == 5 * len(STORES)
    printed = done("inspect", "rows.csv", "seq_len=10", "label_len=5", "pred_len=5", *one).out
    assert "sales, region, size, level" in printed
    assert "dataset.attributes=stores.csv" in printed


def test_what_is_refused(here: Path) -> None:
    """One line each, with file, row and remedy."""
    good = attributes()
    cases: list[tuple[pd.DataFrame, str]] = [
        (good.rename(columns={"store": "shop"}), "expected a column 'store' with the names of the series"),
        (good.iloc[:0], "bad.csv: a header without rows, expected one row for each series"),
        (good[good["store"] != "s2"], f"rows.csv, row {2 * ROWS + 2}, column 'store': no row for the series 's2' in"),
        (pd.concat([good, good[1:]]), "bad.csv, row 6, column 'store': a second row for the series 'NA' (3 rows"),
        (good.assign(sales=1.0), "dataset.attributes=bad.csv: sales: a column of rows.csv too; remove it from one"),
        (good.assign(size=[1, None, 2, 3]), "bad.csv, row 3, column 'size': expected a number, found an empty cell"),
        (good.assign(size=[1, 2, "big", 3]), "bad.csv, row 4, column 'size': expected a number, found 'big'"),
        (good.assign(size=["2020-01-01"] * 4), "bad.csv, row 2, column 'size': expected a number, found '2020-01-01'"),
        (good[["store"]], "dataset.attributes=bad.csv: expected columns attributes next to 'store', found none"),
        (good.assign(store=["001", None, "s2", "s3"]), "bad.csv, row 3, column 'store': expected the name of a series"),
    ]  # fmt: skip
    for table, line in cases:
        table.to_csv("bad.csv", index=False)
        refused(call("train", *OWN, "dataset.attributes=bad.csv", "run_dir=refused"), line)
    Path("bad.csv").write_bytes(b"store,size\n001,1,2,3\n")
    refused(call("train", *OWN, "dataset.attributes=bad.csv", "run_dir=refused"), "bad.csv, row 2")
    Path("bad.csv").write_bytes(bytes(range(256)))
    refused(call("train", *OWN, "dataset.attributes=bad.csv", "run_dir=refused"), "bad.csv")
    refused(call("train", *OWN, "dataset.attributes=absent.csv", "run_dir=refused"), "absent.csv: no such file")
    unnamed = [word for word in OWN if not word.startswith("dataset.series_col")]
    refused(call("train", *unnamed, "run_dir=refused"), "expected dataset.series_col with it")
    refused(call("train", *OWN, "dataset.static_covariates=[area]", "run_dir=refused"), "expected columns area, found")
    attributes()[["store", "size"]].to_csv("bad.csv", index=False)
    lacking = ["checkpoint=own", "input=rows.csv", "output=none", "dataset.attributes=bad.csv"]
    refused(call("predict", *lacking), "expected the columns region, size, level as in training, found no region")
    whole = ["checkpoint=own", "input=merged.csv", "output=none", "dataset.attributes=stores.csv"]
    refused(call("predict", *whole), "region, size, level: a column of merged.csv too; remove it from one of them")
    refused(call("serve", "checkpoint=own", "dataset.attributes=stores.csv"), "dataset.attributes: expected none")
    assert not Path("refused").exists()


@pytest.mark.parametrize(
    "forged",
    [
        7,
        {"names": ["001"]},
        {"names": ["001", "001"], "values": {}},
        {"names": ["001"], "values": {"region": ["hill", "sea"]}},
        {"names": ["001"], "values": {"size": [float("nan")]}},
        {"names": ["001"], "values": {"size": [True]}},
        {"names": ["001", "s2"], "values": {"size": [1.0, "a"]}},
        {"names": ["001"], "values": {"sales": [1.0]}},
    ],
)
def test_a_checkpoint_with_other_attributes(forged: Any, here: Path, tmp_path: Path) -> None:
    """Fails if an entry that no run writes ends in a traceback, or is used."""
    shutil.copy("own/best.pt", tmp_path / "best.pt")
    content = content_of(tmp_path / "best.pt")
    content["data"]["attributes"] = forged
    write_forged(tmp_path / "best.pt", content)
    predict = [f"checkpoint={tmp_path / 'best.pt'}", "input=rows.csv", f"output={tmp_path / 'out'}"]
    refused(call("predict", *predict), "attribute")


def test_a_checkpoint_names_no_file_of_attributes(here: Path, tmp_path: Path) -> None:
    """Red if the path of attributes in a record is opened: a pipe would block, and a file's text could show."""
    shutil.copytree("own", tmp_path / "run")
    for secret in (tmp_path / "secret.csv", "http://127.0.0.1:9/stores.csv"):
        content = content_of(tmp_path / "run" / "best.pt")
        content["config"]["dataset"]["attributes"] = str(secret)
        write_forged(tmp_path / "run" / "best.pt", content)
        (tmp_path / "secret.csv").write_text("store,region,size,level\n001,xyzzy,1,2\n")
        best = f"checkpoint={tmp_path / 'run' / 'best.pt'}"
        for named in ([], ["dataset.attributes=stores.csv"]):
            output = [f"output={tmp_path / 'report'}", "overwrite=true"]
            done("eval", best, "dataset.path=rows.csv", *named, "plots=none", *output)
            assert (tmp_path / "report/metrics.csv").read_bytes() == Path("own/metrics.csv").read_bytes()
