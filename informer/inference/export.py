"""Export a trained network to other formats; outputs are compared with the network's before a file is written."""

import importlib
import io
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from informer.base.console import say
from informer.base.errors import InputError
from informer.base.files import write_atomic
from informer.checkpoint.format import Checkpoint, encoded, load
from informer.checkpoint.paths import forecasting_checkpoint, locate, only_output
from informer.checkpoint.restore import restore_model
from informer.config.commands import ExportConfig, ExportFormat
from informer.data.calendar import mark_fields
from informer.members.network import INPUTS, inputs_of
from informer.read.frequency import Frequency

OUTPUT = "forecast"
TOLERANCE = 1e-4
"""Largest allowed difference from the network's outputs, on random scaled windows."""

SUFFIXES = {"safetensors": ".safetensors", "onnx": ".onnx", "torch_export": ".pt2"}
"""File name endings."""
COPY = "model.safetensors"
"""Name of a copy of a model file next to it."""

Run = Callable[[tuple[Tensor, ...]], Tensor]


def export(settings: ExportConfig, console: Console) -> Path:
    """Write one checkpoint in another format; returns the path of the model.

    Raises:
        InputError: no readable checkpoint, or it cannot be converted; nothing is written then.
    """
    output = Path(settings.output) if settings.output else None
    if output is not None and output.suffix == ".json":
        raise InputError(f"output={output}: has the ending of description files; choose another")
    source = locate(forecasting_checkpoint(settings.checkpoint))
    is_copy = settings.format == "safetensors"
    output = output or (source.with_name(COPY) if is_copy else source.with_suffix(SUFFIXES[settings.format]))
    description_file = output.parent / f"{output.name}.json"  # one for each format
    written = (output, description_file)
    overwrite = settings.overwrite or not settings.output
    own = (description_file, b'"enc_mark"')
    with only_output(output, written, inputs=[source], overwrite=overwrite, own=own):
        saved = load(forecasting_checkpoint(settings.checkpoint))
        content, off = exported(saved, settings.format)
        described = json.dumps(description(saved), indent=2, allow_nan=False) + "\n"
        write_atomic(output, content)
        write_atomic(description_file, described)
    say(console, f"model:       {output} (largest difference from the network's outputs: {off:.1e})")
    say(console, f"description: {description_file}")
    return output


def exported(checkpoint: Checkpoint, form: ExportFormat) -> tuple[bytes, float]:
    """Content of the exported file, and the largest difference from the network's outputs.

    Exported graphs accept any batch size.

    Raises:
        InputError: it cannot be converted, its outputs differ, or a library is missing.
    """
    model = restore_model(checkpoint)
    if form == "safetensors":
        return encoded(checkpoint)[0], 0.0
    if checkpoint.settings.loss.kind == "negative_binomial":
        raise InputError(
            f"format={form}: quantiles of loss=negative_binomial are sums that no graph has; use loss=student_t, "
            "or format=safetensors"
        )
    for library in ("onnx", "onnxscript", "onnxruntime") if form == "onnx" else ():
        try:
            importlib.import_module(library)
        except ImportError as error:
            raise InputError(f"format=onnx needs {library}: pip install onnx onnxscript onnxruntime") from error
    names = inputs_of(model)
    convert = {"onnx": _onnx, "torch_export": _torch_export}[form]
    try:
        batch = Dim("batch")
        program = torch.export.export(
            model, example(checkpoint, 2, names), dynamic_shapes=tuple({0: batch} for _ in names), strict=False
        )
        content, run = convert(program, names)
    except Exception as error:  # converters raise errors of many kinds
        cause = error.__cause__ or error
        reason = " ".join(f"{type(cause).__name__}: {cause}".split())[:200]
        mechanisms = sorted({type(layer.attention).__name__ for layer in model.attention_layers().values()})
        raise InputError(
            f"format={form}: {', '.join(mechanisms) or model.family} cannot be converted ({reason}); "
            "format=safetensors supports every model"
        ) from error
    off = max(_difference(model, run, example(checkpoint, n, names)) for n in (1, 3))
    if not off <= TOLERANCE:
        raise InputError(
            f"format={form}: outputs differ from the network's by up to {off:.1e}; "
            "format=safetensors supports every model"
        )
    return content, off


def example(checkpoint: Checkpoint, batch: int, names: Sequence[str] = INPUTS) -> tuple[Tensor, ...]:
    """Random windows in scaled units, with marks that are valid for the calendar embedding; one array per name."""
    dims, draw = checkpoint.dims, torch.Generator().manual_seed(batch)
    sizes = torch.tensor(dims.mark_sizes)
    linear = checkpoint.calendar.kind == "timeF"
    codes = torch.tensor([*dims.categories] or [0] * dims.enc_in)
    n_masks = len(dims.masked or ())
    arrays: list[Tensor] = []
    for rows in (dims.seq_len, dims.label_len + dims.pred_len):
        marks = torch.rand(batch, rows, len(sizes), generator=draw)
        numbers = torch.randn(batch, rows, dims.enc_in, generator=draw)
        drawn = (torch.rand(batch, rows, dims.enc_in, generator=draw) * (codes + 1)).floor()
        values = torch.where(codes > 0, drawn, numbers)
        if n_masks:  # the last columns, as if every third row were missing
            values[:, :, -n_masks:] = 1.0
            values[:, ::3, -n_masks:] = 0.0
        arrays += [values, marks - 0.5 if linear else (marks * sizes).floor()]
    if "series" in names:
        arrays.append(torch.randint(-1, dims.n_series, (batch,), generator=draw))
    return tuple(arrays)


def description(checkpoint: Checkpoint) -> dict[str, Any]:
    """Metadata for programs that run the network: inputs, columns, lengths, scaler, calendar."""
    dims, calendar = checkpoint.dims, checkpoint.calendar
    step, quantiles = Frequency.parse(checkpoint.frequency), checkpoint.settings.loss.quantiles
    dec_len, n_marks = dims.label_len + dims.pred_len, len(dims.mark_sizes)
    return {
        "inputs": {
            "enc_x": ["batch", dims.seq_len, dims.enc_in],
            "enc_mark": ["batch", dims.seq_len, n_marks],
            "dec_x": ["batch", dec_len, dims.enc_in],
            "dec_mark": ["batch", dec_len, n_marks],
            **({"series": ["batch"]} if checkpoint.data.names else {}),
        },
        "output": {OUTPUT: ["batch", dims.pred_len, dims.c_out, *([len(quantiles)] if quantiles else [])]},
        "quantiles": quantiles,
        "columns": {
            "inputs": checkpoint.inputs,
            "targets": checkpoint.targets,
            "future_covariates": checkpoint.future_covariates,
            "static_covariates": checkpoint.data.static_covariates,
            "with_observed_mask": [checkpoint.inputs[place] for place in dims.masked or ()],
        },
        "categories": {
            name: {label: number for number, label in enumerate(labels, start=1)}
            for name, labels in checkpoint.data.categories.items()
        },
        "series": checkpoint.data.names,
        "lengths": asdict(checkpoint.settings.sizes),
        "frequency": checkpoint.frequency,
        "calendar": {"kind": calendar.kind, "marks": list(mark_fields(step, calendar))},
        "scaler": checkpoint.scaler.state(),
        "notes": [
            "enc_x: the last seq_len rows of the columns, scaled: (x - center) / scale; if the scaler has a power, "
            "(sign(x) |x|^power - center) / scale; compute this in float64 and then convert to float32, since raw "
            "values in float32 lose small variations of large values",
            "scaler: that of all series (shared), or of each by name (by_series); for a series without one, the mean "
            "and standard deviation of its enc_x",
            "dec_x: the last label_len of these rows, then pred_len rows of zeros (future and static covariates: their "
            "values)",
            "categories: by column, the code of each category in enc_x and dec_x, unscaled; 0 is any other category",
            "with_observed_mask: in these columns enc_x and dec_x are 0 where a value is missing; a mask per column, "
            "1 where it is observed and 0 where not, is appended after all columns (in the horizon of dec_x: 1 only "
            "for known values of future covariates); other columns have a value in every row",
            "series: index of a window's series among those of training, from 0; -1: a new series",
            "offset: rows between the two parts of dec_x and dec_mark, not included in them",
            "forecast: scaled values of the targets; u = x * scale + center, in float64, gives original units; if the "
            "scaler has a power, sign(u) |u|^(1 / power)",
            "constant: columns (positions) of a scaler that are constant in training; the forecast of such a target is "
            "its last value, whatever the network returns",
            "quantiles: levels along a last axis of the forecast; [] means a forecast without that axis",
        ],
    }


def _torch_export(program: ExportedProgram, _: Sequence[str]) -> tuple[bytes, Run]:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    module = torch.export.load(io.BytesIO(buffer.getvalue())).module()
    return buffer.getvalue(), lambda windows: module(*windows)


def _onnx(program: ExportedProgram, names: Sequence[str]) -> tuple[bytes, Run]:
    import onnxruntime

    # otherwise it warns that torchvision, which is not used, is missing
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    converted = torch.onnx.export(program, input_names=names, output_names=[OUTPUT], dynamo=True, verbose=False)
    assert converted is not None
    content = converted.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(windows: tuple[Tensor, ...]) -> Tensor:
        arrays = dict(zip(names, (x.numpy() for x in windows), strict=True))
        return torch.from_numpy(np.asarray(session.run([OUTPUT], arrays)[0]))

    return content, run


@torch.no_grad()
def _difference(model: nn.Module, run: Run, windows: tuple[Tensor, ...]) -> float:
    return float((run(windows) - model(*windows)).abs().max())
