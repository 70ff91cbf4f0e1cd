"""A family of networks is one file and one yaml, also outside the package; only what the user names is imported."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from entry_points import SMALL, assert_same_weights, call, done, killed, refusal
from toy_family import MODULE, YAML

from informer import Forecaster, checkpoint
from informer.base.errors import InputError
from informer.base.runtime import resource
from informer.checkpoint.restore import restore_model
from informer.config import model as families
from informer.config.model import InformerConfig
from informer.networks.models import base

TOY = ["--config-dir=conf", "dataset=sample", *SMALL[1:], "model=toy", "trainer.max_epochs=2"]


@pytest.fixture
def toy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The family in a module of the folder, named in the environment."""
    (folder / "toys.py").write_text(MODULE)
    (folder / "conf" / "model").mkdir(parents=True)
    (folder / "conf" / "model" / "toy.yaml").write_text(YAML)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("INFORMER_MODELS", "toys")
    yield
    families._configs.pop("toy", None)
    for config in [config for config in base._networks if config.__name__ == "ToyConfig"]:
        del base._networks[config]
    sys.modules.pop("toys", None)


@pytest.mark.usefixtures("toy")
def test_a_family_from_outside_goes_through_every_command(folder: Path) -> None:
    """Red if training, scoring, prediction, resuming, freezing, compiling or exporting asks for an Informer's parts."""
    checked = partial(call, checked=True)
    outcome = checked("train", *TOY, "run_dir=whole")
    assert outcome.status == 0, outcome.err
    assert checkpoint.load(Path("whole")).weights["network.inner.weight"].shape == (8, 24)
    assert json.loads(Path("whole/metrics.json").read_text())["scores"]["toy"]
    assert checked("eval", "checkpoint=whole", "plots=attention").status == 0
    assert Path("whole/eval/metrics.csv").read_bytes() == Path("whole/metrics.csv").read_bytes()
    source = resource("data/sample.csv")
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
    assert checked("train", "resume=cut").status == 0
    assert_same_weights("cut", "whole")


@pytest.mark.slow
@pytest.mark.usefixtures("toy")
def test_its_saved_configuration_makes_the_same_run(folder: Path) -> None:
    done("train", *TOY, "trainer.freeze=[inner]", "loss=quantile", "run_dir=one")
    done("train", "--config-dir=one", "--config-name=config", "run_dir=two")
    assert_same_weights("one", "two")
    done("train", *TOY, "loss=quantile", "trainer.max_steps=1", "init_from=one", "run_dir=three")
    line = refusal("train", *TOY, "loss=quantile", "features=S", "target=price", "init_from=one", "run_dir=four")
    assert "init_from: expected the columns of the checkpoint, found others; model.family=toy does not say" in line


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("model.hidden=abc", "error: model.hidden: expected a whole number, found 'abc'"),
        ("model.hiden=3", "error: unknown key 'model.hiden': expected one such as model.hidden"),
        ("model.d_model=3", "error: unknown key 'model.d_model': expected one such as"),
        ("+model.other=3", "error: unknown key 'model.other'"),
        ("model.hidden=0", "error: model.hidden: expected at least 1, found 0"),
        ("model.skip=ridge", "error: model.skip: expected none with model.family=toy, found ridge"),
    ],
)
def test_its_configuration_is_typed_and_checked(argument: str, says: str) -> None:
    line = refusal("train", *TOY, argument)
    assert line.startswith(says), line


@pytest.mark.usefixtures("toy")
def test_a_checkpoint_imports_nothing_that_the_user_has_not_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if a family that a file names is looked for beyond the package and INFORMER_MODELS."""
    done("train", *TOY, "trainer.max_steps=1", "run_dir=run")
    saved = checkpoint.load(Path("run"))
    families._configs.pop("toy")
    sys.modules.pop("toys")
    monkeypatch.delenv("INFORMER_MODELS")
    for name in (
        "toy",
        "toys",
        "base",
        "__init__",
        "../informer",
        "os",
        "informer.networks.models.informer",
        3,
        None,
        [1],
    ):
        model = saved.config["model"] | {"family": name}
        forged = saved.model_copy(update={"config": saved.config | {"model": model}})
        with pytest.raises(InputError, match=r"model\.family .*expected one of .*informer"):
            restore_model(forged)
    assert "toys" not in sys.modules
    line = refusal("predict", "checkpoint=run", f"input={resource('data/sample.csv')}")
    assert "name its module in INFORMER_MODELS" in line


def test_modules_that_cannot_be_imported_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFORMER_MODELS", "no_such_module")
    with pytest.raises(InputError, match="expected modules that can be imported, found no_such_module"):
        families.config_class("mine")


def test_two_families_do_not_share_a_name() -> None:
    class Other(InformerConfig):
        pass

    with pytest.raises(ValueError, match="another family is called 'informer'"):
        families.register_family(Other)
