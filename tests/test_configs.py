"""Every yaml file that ships is composed as its entry point does, built, and stepped once."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from entry_points import ROOT, SMALL
from published_files import published_folder

from informer.checkpoint import build_model
from informer.checkpoint.network import resolve_decoder
from informer.config import conversion
from informer.config.hydra_compose import composed
from informer.config.training import TrainConfig
from informer.data.dataset import build_data, read_dataset
from informer.members.network import model_output
from informer.training.optim import build_loss, build_optimizer
from informer.training.run import with_transform

CONF = ROOT / "conf"
GROUPS = sorted({path.name for path in CONF.iterdir() if path.is_dir()} - {"attn", "dataset", "hydra", "model"})
"""Models are in tests/contracts."""


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


NOT_READ = {"attn", "decoder_attn", "cross_attn", "model", "optim", "loss", "trainer"}
SOURCES: dict[str, Any] = {}


def step(settings: TrainConfig) -> None:
    """Build all that the configuration names, and learn from one batch; twice, as a head may start at zero."""
    torch.manual_seed(0)
    cpu = torch.device("cpu")
    # networks are many, data few
    read = repr(
        [settings.sizes, *(getattr(settings, key.name) for key in fields(settings) if key.name not in NOT_READ)]
    )
    source = SOURCES[read] if read in SOURCES else SOURCES.setdefault(read, read_dataset(settings))
    settings, _ = with_transform(settings, source, cpu)
    data = build_data(settings, cpu, source=source)
    decoder_attn, _ = resolve_decoder(settings.attn, settings.decoder_attn)
    slots = {"attn": settings.attn, "decoder_attn": decoder_attn, "cross_attn": settings.cross_attn}
    model = build_model(settings.model, data.dims, **slots, quantiles=settings.loss.quantiles, loss=settings.loss.kind)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    optimizer = build_optimizer(settings.optim, model)
    batch = data.train.batch(torch.tensor([0, len(data.train) - 1]))
    for _ in range(2):
        loss = build_loss(settings.loss)(model_output(model, batch, for_loss=True), batch.target)
        loss.backward()
        optimizer.step()
    assert loss.isfinite()
    # biases of keys get no gradient from a softmax, embeddings of unseen marks none at all
    moved = [name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])]
    assert len(moved) > len(before) / 2
    assert all(weight.isfinite().all() for weight in model.parameters())


@pytest.mark.parametrize(("group", "option"), [(group, option) for group in GROUPS for option in options(group)])
def test_option(group: str, option: str) -> None:
    counts = ["targets=[visitors]", "past_covariates=[price]"] if option == "negative_binomial" else []
    step(composed(["dataset=sample", *SMALL, f"{group}={option}", *counts]))


@pytest.mark.parametrize("name", options("dataset"))
def test_dataset(name: str, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text((ROOT / "data/sample.csv").read_text())
    settings = composed([f"dataset={name}", "model=tiny", *([f"dataset.path={path}"] if name == "csv" else [])])
    assert settings.dataset.name == name
    file = settings.dataset.file
    if file is not None and not settings.dataset.packaged:
        settings.data_dir = str(published_folder(file))
    step(settings)


def test_what_is_saved_comes_back() -> None:
    settings = composed(
        ["dataset=sample", *SMALL, "experiment=informer2020", "model.embed=fixed", "target=price", "device=cuda:1"]
    )
    saved = conversion.to_plain(settings)
    assert (saved["dataset"].pop("file"), saved["dataset"].pop("packaged")) == ("sample.csv", True)
    settings.dataset = replace(settings.dataset, file=None, packaged=False)  # places do not come back
    assert conversion.from_plain(saved) == settings
