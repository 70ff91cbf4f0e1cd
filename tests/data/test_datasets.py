"""Every yaml of conf/dataset and conf/scaler fits its schema; the sample is what its generator makes, and trains."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dataset_cases import dataset
from omegaconf import OmegaConf

from informer.base.errors import InputError
from informer.base.runtime import resource
from informer.config.data import FeatureMode, ScalerConfig, ScalerKind
from informer.config.model import CalendarEmbed, WindowSizes
from informer.data.columns import Roles
from informer.data.dataset import load_data
from informer.read.files import find_file

DATASETS = sorted(path.stem for path in resource("conf/dataset").glob("*.yaml"))
SCALERS = sorted(path.stem for path in resource("conf/scaler").glob("*.yaml"))


def test_the_datasets_are_there() -> None:
    assert {"ETTh1", "ETTh2", "ETTm1", "ETTm2", "WTH", "ECL", "csv", "sample"} <= set(DATASETS)


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_fits_the_schema_and_can_be_had(name: str, tmp_path: Path) -> None:
    config = dataset(name)
    assert config.name == name
    if config.url is not None:
        assert config.url.endswith(f"/{config.file}")
    elif not config.packaged:
        with pytest.raises(InputError, match=f"{config.file or 'my.csv'}"):
            find_file(config, tmp_path)


@pytest.mark.parametrize("name", SCALERS)
def test_a_scaler_fits_the_schema(name: str) -> None:
    node = yaml.safe_load((resource("conf/scaler") / f"{name}.yaml").read_text())
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ScalerConfig), node))
    assert isinstance(config, ScalerConfig)
    assert config.kind is ScalerKind(name)


def test_every_kind_of_scaler_has_its_file() -> None:
    assert sorted(kind.value for kind in ScalerKind) == SCALERS


def test_the_sample_is_what_its_generator_writes(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "scripts" / "make_sample.py"
    subprocess.run([sys.executable, str(script), str(tmp_path / "sample.csv")], check=True)
    written = (tmp_path / "sample.csv").read_bytes()
    assert written == resource("data/sample.csv").read_bytes()
    assert len(written) < 600_000


def test_the_sample_is_read_whatever_the_data_folder_is(tmp_path: Path) -> None:
    data = load_data(
        dataset("sample"),
        sizes=WindowSizes(seq_len=96, label_len=48, pred_len=24),
        roles=Roles(features=FeatureMode.MS),
        scaler=ScalerConfig(),
        calendar=CalendarEmbed.timeF,
        data_dir=tmp_path / "nowhere",
        device="cpu",
    )
    assert data.targets == ("demand",)
    assert len(data.inputs) >= 3
    assert min(len(data.train), len(data.val), len(data.test)) > 500
