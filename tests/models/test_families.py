"""Families of networks and attention mechanisms from outside the package: only what the command names is imported."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from entry_points import ROOT, SMALL, assert_same_weights, call, done, killed, refusal
from hydra.core.config_store import ConfigStore
from toy_family import ATTENTION, ENTRY_POINTS, MODULE, YAML

from informer import Forecaster, InputError, checkpoint
from informer.checkpoint import restore_model
from informer.networks import InformerConfig
from informer.networks.models import base
from informer.networks.models.config import families

BRIEF = ["dataset=sample", *SMALL[1:], "trainer.max_epochs=2"]
TOY = ["--config-dir=conf", *BRIEF, "model=toy"]
MEAN = ["--config-dir=conf", *BRIEF, "model=tiny", "attn=own", "attn.share=0.5"]
SAMPLE = f"input={ROOT / 'data/sample.csv'}"


def forget() -> None:
    """As in a new process: the modules of the folder are not imported, and Hydra does not know their options."""
    for group, name in (("attn", "mean"), ("model", "packed")):
        ConfigStore.instance().repo.get(group, {}).pop(f"{name}.yaml", None)
    families.pop("toy", None)
    base.networks.pop("toy", None)
    for module in ("toys", "means"):
        sys.modules.pop(module, None)


@pytest.fixture
def own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Modules of the user in the current folder, and yaml files that name their classes."""
    for name, text in {
        "toys.py": MODULE,
        "means.py": ATTENTION,
        "conf/model/toy.yaml": f"_target_: toys.Toy\n{YAML}",
        "conf/attn/own.yaml": "_target_: means.Mean\nshare: 1.0",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(folder / "site"))  # also restores the path
    yield folder
    forget()


@pytest.fixture
def package(own: Path) -> None:
    """The same modules in an installed package, without yaml files."""
    facts = own / "site" / "own-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRY_POINTS)
    for module in ("toys.py", "means.py"):
        (own / module).rename(own / "site" / module)


@pytest.mark.usefixtures("package")
def test_an_installed_package_adds_options() -> None:
    """Red if entry points are not found, their parameters are no settings, or a model file imports them."""
    said = call("train", "--help").out
    assert "mean" in said.partition("  attn: ")[2].partition(":")[0]
    assert "packed" in said.partition("  model: ")[2].partition(":")[0]
    assert not {"means", "toys"} & {*sys.modules}
    done("train", *BRIEF, "model=packed", "model.hidden=3", "trainer.max_steps=1", "run_dir=packed")
    done("train", *BRIEF, "model=tiny", "attn=mean", "attn.share=0.5", "trainer.max_steps=1", "run_dir=mean")
    assert {"family": "toy", "hidden": 3}.items() <= checkpoint.load(Path("packed")).config["model"].items()
    assert checkpoint.load(Path("mean")).config["attn"] == {"_target_": "means.Mean", "share": 0.5}
    forget()
    for run in ("packed", "mean"):
        assert "--import=" in refusal("predict", f"checkpoint={run}", SAMPLE)
        assert not {"means", "toys"} & {*sys.modules}
    done("predict", "--import=means", "--import=toys", "checkpoint=packed", SAMPLE, "plots=false")


@pytest.mark.usefixtures("package")
def test_what_is_not_there_is_named() -> None:
    """Red if an option, a parameter or a module of another package is refused as one of ours, or by a traceback."""
    Path("unfinished.py").write_text("def mean(:\n")
    for says, words in {
        "attn=missing: expected a class at means:Median": ["attn=missing"],
        "attn: expected one of additive, ": ["attn=median"],
        "unknown key 'attn.width': expected a parameter of Mean: share": ["attn=mean", "attn.width=3"],
        "'no_such': expected a module of the current": ["attn=full", "attn._target_=no_such.Thing"],
        "'no such': expected a module of the current folder or of an installed": ["--import=no such"],
        "'unfinished': line 1: ": ["--import=unfinished"],
    }.items():
        assert refusal("train", *BRIEF, "model=tiny", *words).startswith(f"error: {says}")


@pytest.mark.slow
@pytest.mark.usefixtures("own")
def test_a_file_is_enough_for_a_mechanism() -> None:
    """Red if `_target_` of a yaml that the command names is not imported from the current folder."""
    done("train", *MEAN, "run_dir=run")
    done("eval", "checkpoint=run", "plots=attention")
    assert checkpoint.load(Path("run")).config["attn"] == {"_target_": "means.Mean", "share": 0.5}
    forget()
    line = refusal("eval", "checkpoint=run", "output=again")
    assert "found 'means.Mean'; if you trust it, import its module: --import=means" in line
    done("eval", "--import=means", "checkpoint=run", "output=again")
    assert Path("again/metrics.csv").read_bytes() == Path("run/eval/metrics.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("own")
def test_a_family_from_outside_goes_through_every_command(folder: Path) -> None:
    """Red if training, scoring, prediction, resuming, freezing, compiling or exporting asks for an Informer's parts."""
    checked = partial(call, checked=True)
    outcome = checked("train", *TOY, "run_dir=whole")
    assert outcome.status == 0, outcome.err
    assert checkpoint.load(Path("whole")).weights["network.inner.weight"].shape == (8, 24)
    assert json.loads(Path("whole/metrics.json").read_text())["scores"]["toy"]
    assert checked("eval", "checkpoint=whole", "plots=attention").status == 0
    assert Path("whole/eval/metrics.csv").read_bytes() == Path("whole/metrics.csv").read_bytes()
    source = ROOT / "data/sample.csv"
    assert checked("predict", "checkpoint=whole", f"input={source}", "intervals=[50]", "plots=false").status == 0
    forecast = pd.read_csv("forecasts/sample.forecast.csv", parse_dates=["date"])
    frame = pd.read_csv(source, parse_dates=["date"])
    expected = Forecaster.load("whole", device="cpu").predict(frame, intervals=50)
    pd.testing.assert_frame_equal(forecast, expected, check_dtype=False)
    for form in ("safetensors", "torch_export"):
        outcome = checked("export", "checkpoint=whole", f"format={form}")
        assert outcome.status == 0, outcome.err

    with killed():
        call("train", *TOY, "run_dir=cut")
    assert checked("train", "--import=toys", "resume=cut").status == 0
    assert_same_weights("cut", "whole")


@pytest.mark.slow
@pytest.mark.usefixtures("own")
def test_its_saved_configuration_makes_the_same_run(folder: Path) -> None:
    done("train", *TOY, "trainer.freeze=[inner]", "loss=quantile", "run_dir=one")
    done("train", "--import=toys", "--config-dir=one", "--config-name=config", "run_dir=two")
    assert_same_weights("one", "two")
    done("train", *TOY, "loss=quantile", "trainer.max_steps=1", "init_from=one", "run_dir=three")
    line = refusal("train", *TOY, "loss=quantile", "features=S", "target=price", "init_from=one", "run_dir=four")
    assert "init_from: expected the columns of the checkpoint, found others; model.family=toy does not say" in line


@pytest.mark.usefixtures("own")
def test_its_configuration_is_typed_and_checked() -> None:
    for argument, says in {
        "model.hidden=abc": "model.hidden: expected a whole number, found 'abc'",
        "model.hiden=3": "unknown key 'model.hiden': expected one such as model.hidden",
        "model.d_model=3": "unknown key 'model.d_model': expected one such as",
        "+model.other=3": "unknown key 'model.other'",
        "model.hidden=0": "model.hidden: expected at least 1, found 0",
        "model.skip=ridge": "model.skip: expected none with model.family=toy, found ridge",
    }.items():
        assert refusal("train", *TOY, argument).startswith(f"error: {says}")


@pytest.mark.usefixtures("own")
def test_a_model_file_imports_nothing() -> None:
    """Red if a family that a file names is looked for beyond the package and what is imported."""
    done("train", *TOY, "trainer.max_steps=1", "run_dir=run")
    saved = checkpoint.load(Path("run"))
    forget()
    for name in ("toy", "toys", "base", "__init__", "../informer", "os", "toys.Toy", 3, None, [1]):
        model = saved.config["model"] | {"family": name, "_target_": "toys.Toy"}
        forged = saved.model_copy(update={"config": saved.config | {"model": model}})
        with pytest.raises(InputError, match=r"model\.family .*expected one of .*informer"):
            restore_model(forged)
    assert "toys" not in sys.modules


def test_two_families_do_not_share_a_name() -> None:
    @dataclass(kw_only=True)
    class Other(InformerConfig):
        pass

    with pytest.raises(ValueError, match="another family is called 'informer'"):
        type("Same", (base.Network,), {"CONFIG": Other})
