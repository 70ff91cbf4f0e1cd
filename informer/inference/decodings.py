"""Compare one-pass and step-by-step decoding of one checkpoint: scores and time on the same windows."""

import csv
import io
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace

import torch
from rich.box import SIMPLE_HEAD
from rich.table import Table

from informer.checkpoint.format import Checkpoint
from informer.checkpoint.restore import restore_model
from informer.config.commands import EvalDecoding, EvalModel
from informer.config.families import config_class, family_of
from informer.config.model import Decoding
from informer.data.pipeline import Data
from informer.data.windows import Batch
from informer.errors import InputError
from informer.inference.evaluate import evaluate, training_scale
from informer.models.base import model_forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Scores of one decoding on the test part, in scaled units."""

    decoding: str
    windows: int
    mse: float
    mae: float
    ms_per_window: float
    """Wall time of the network, measured per batch."""


def with_decoding(checkpoint: Checkpoint, settings: EvalModel) -> Checkpoint:
    """The checkpoint with another decoding or offset; if either differs, without its calibration, which is no longer
    valid.

    Raises:
        InputError: the family has no choice of decoding.
    """
    model = checkpoint.config["model"]
    if settings.decoding is not None and "decoding" not in config_class(family_of(model)).__dataclass_fields__:
        raise InputError(f"model.decoding: expected model.family=informer, found {family_of(model)}")
    current = {"decoding": Decoding.one_pass.name, "offset": 0} | model
    other = dict(current)
    if settings.decoding not in (None, EvalDecoding.both):
        other["decoding"] = settings.decoding.name
    if settings.offset is not None:
        other["offset"] = settings.offset
    if other == current:
        return checkpoint
    return replace(checkpoint, config=checkpoint.config | {"model": other}, calibration=None)


def compare_decodings(checkpoint: Checkpoint, data: Data, *, device: torch.device, batch_size: int) -> list[Decoded]:
    """Score and time each decoding on the test part."""
    return [_decoded(checkpoint, decoding, data, device, batch_size) for decoding in Decoding]


def _decoded(saved: Checkpoint, decoding: Decoding, data: Data, device: torch.device, batch_size: int) -> Decoded:
    config = saved.config | {"model": saved.config["model"] | {"decoding": decoding.name}}
    model = restore_model(replace(saved, config=config)).to(device)
    seconds = 0.0

    def forecast(batch: Batch) -> torch.Tensor:
        nonlocal seconds
        begun = _now(device)
        output = model_forecast(model, batch)
        seconds += _now(device) - begun
        return output

    with torch.inference_mode():  # the first call of a process is slow
        model_forecast(model, data.test.batch(torch.arange(min(batch_size, len(data.test)))))
    errors = evaluate(forecast, data.test, mase_scale=training_scale(data), batch_size=batch_size).scaled
    overall = errors.overall()
    return Decoded(
        decoding=decoding.name,
        windows=errors.windows,
        mse=overall["mse"],
        mae=overall["mae"],
        ms_per_window=1000 * seconds / errors.windows,
    )


def _now(device: torch.device) -> float:
    """Time in seconds, after synchronizing the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def decodings_csv(decodings: Sequence[Decoded]) -> str:
    """CSV text: a header and one row per decoding."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Decoded)])
    writer.writerows(map(astuple, decodings))
    return text.getvalue()


def decodings_table(decodings: Sequence[Decoded]) -> Table:
    """Table for the terminal."""
    table = Table(title="same weights, scaled errors", title_justify="left", box=SIMPLE_HEAD, padding=0)
    for place, heading in enumerate(("decoding", "MSE", "MAE", "ms/window")):
        table.add_column(heading, justify="right" if place else "left")
    for decoded in decodings:
        table.add_row(
            decoded.decoding, *(f"{value:.4g}" for value in (decoded.mse, decoded.mae, decoded.ms_per_window))
        )
    return table
