"""`composition.py`: what tests compose with is what Hydra composes."""

from typing import Any

import composition
import hydra
import pytest
from composition import ConfigLoaderImpl, loading
from entry_points import SMALL
from hydra._internal.config_repository import CachingConfigRepository
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from informer.base.errors import InputError
from informer.base.runtime import resource
from informer.config import conversion
from informer.config.hydra_compose import register, to_typed

CASES = [
    ("train", ["dataset=sample", *SMALL, "run_dir=x"]),
    ("train", ["dataset=sample", *SMALL, "attn=full", "run_dir=y", "+optim.more=1", "optim={lr: 3.0}", "seq_len=7"]),
    ("train", ["attn@cross_attn=prob", "model=linear", "~dataset.split", "data_dir='a=b'"]),
    ("train", ["dataset=nowhere"]),
    ("train", ["seq_lem=3", "dataset=nowhere"]),
    ("train", ["seq_lem=3"]),
    ("train", ["seed=1,2"]),
    ("train", ["seed=1", "+seed=2"]),
    ("train", ["+seeds=2"]),
    ("train", ["trainer.max_epochs=some", "seed=many"]),
]


def composed(name: str, overrides: list[str]) -> Any:
    """All of it with Hydra's own node and what the command gets, or the error."""
    register()
    with hydra.initialize_config_dir(str(resource("conf")), job_name=name, version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        try:
            config = loader.load_configuration(name, overrides, RunMode.RUN)
            text = OmegaConf.to_yaml(config)
            del config._content["hydra"]
            return text, to_typed(config)
        except (HydraException, OmegaConfBaseException, InputError) as error:
            return type(error), str(error)


@pytest.mark.parametrize(("name", "overrides"), CASES)
def test_it_is_what_hydra_composes(name: str, overrides: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a value stays from an earlier composition, or is set before a group is chosen, or an error is another."""
    first, second = composed(name, overrides), composed(name, overrides)
    monkeypatch.setattr(conversion, "filled", composition._fill)
    monkeypatch.setattr(composition.OverridesParser, "parse_rule", composition._parse)
    monkeypatch.setattr(loading, "create_defaults_list", composition._list)
    monkeypatch.setattr(loading, "CachingConfigRepository", CachingConfigRepository)
    monkeypatch.setattr(ConfigLoaderImpl, "_compose_config_from_defaults_list", composition._compose)
    assert first == second == composed(name, overrides)
