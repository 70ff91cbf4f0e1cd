"""A trained network in the formats that other programs read, each checked against the network before it is kept."""

import importlib
import io
import logging
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from informer.checkpoint import Checkpoint, to_safetensors
from informer.data.frequency import Frequency
from informer.data.time_features import CalendarKind, mark_fields
from informer.errors import InputError
from informer.restore import restore_model

INPUTS, OUTPUT = ("enc_x", "enc_mark", "dec_x", "dec_mark"), "forecast"
TOLERANCE = 1e-4
"""Largest difference from the network's own numbers, on random windows of scaled size."""

Run = Callable[[tuple[Tensor, ...]], Tensor]


class ExportFormat(Enum):
    """safetensors: weights and metadata, read here as a checkpoint; onnx, torch_export: the network as a graph."""

    safetensors = "safetensors"
    onnx = "onnx"
    torch_export = "torch_export"


def exported(checkpoint: Checkpoint, form: ExportFormat) -> tuple[bytes, float]:
    """A checkpoint as the content of another file, and how far the numbers of that are from the network's own.

    Graphs take any number of windows.

    Raises:
        InputError: it does not convert, its numbers differ, or a library is missing.
    """
    model = restore_model(checkpoint)
    if form is ExportFormat.safetensors:
        return to_safetensors(checkpoint), 0.0
    if form is ExportFormat.onnx:
        _need_onnx()
    convert = {ExportFormat.onnx: _onnx, ExportFormat.torch_export: _torch_export}[form]
    try:
        batch = Dim("batch")
        program = torch.export.export(
            model, example(checkpoint, 2), dynamic_shapes=tuple({0: batch} for _ in INPUTS), strict=False
        )
        content, run = convert(program)
    except Exception as error:  # converters raise errors of many kinds
        cause = error.__cause__ or error
        reason = " ".join(f"{type(cause).__name__}: {cause}".split())[:200]
        raise InputError(
            f"format={form.value}: {_mechanisms(model)} does not convert ({reason}); "
            "format=safetensors takes every model"
        ) from error
    off = max(_difference(model, run, example(checkpoint, n)) for n in (1, 3))
    if not off <= TOLERANCE:
        raise InputError(
            f"format={form.value}: expected the network's own numbers, found differences up to {off:.1e}; "
            "format=safetensors takes every model"
        )
    return content, off


def example(checkpoint: Checkpoint, batch: int) -> tuple[Tensor, ...]:
    """Random windows in scaled units, with marks that the calendar embedding takes."""
    dims, draw = checkpoint.dims, torch.Generator().manual_seed(batch)
    sizes = torch.tensor(dims["mark_sizes"])
    linear = checkpoint.config["model"]["embed"] == CalendarKind.timeF.value
    arrays: list[Tensor] = []
    for columns, rows in (("enc_in", dims["seq_len"]), ("dec_in", dims["label_len"] + dims["pred_len"])):
        marks = torch.rand(batch, rows, len(sizes), generator=draw)
        arrays += [
            torch.randn(batch, rows, dims[columns], generator=draw),
            marks - 0.5 if linear else (marks * sizes).floor(),
        ]
    return tuple(arrays)


def description(checkpoint: Checkpoint) -> dict[str, Any]:
    """What a program needs to know that runs the network: inputs, columns, lengths, scaler, calendar."""
    dims, kind = checkpoint.dims, CalendarKind(checkpoint.config["model"]["embed"])
    quantiles = checkpoint.quantiles
    dec_len, n_marks = dims["label_len"] + dims["pred_len"], len(dims["mark_sizes"])
    return {
        "inputs": {
            "enc_x": ["batch", dims["seq_len"], dims["enc_in"]],
            "enc_mark": ["batch", dims["seq_len"], n_marks],
            "dec_x": ["batch", dec_len, dims["dec_in"]],
            "dec_mark": ["batch", dec_len, n_marks],
        },
        "output": {OUTPUT: ["batch", dims["pred_len"], dims["c_out"], *([len(quantiles)] if quantiles else [])]},
        "quantiles": quantiles,
        "columns": {
            "inputs": checkpoint.inputs,
            "targets": checkpoint.targets,
            "future_covariates": checkpoint.future_covariates,
        },
        "lengths": {name: dims[name] for name in ("seq_len", "label_len", "pred_len")},
        "frequency": checkpoint.frequency,
        "calendar": {"kind": kind.value, "marks": list(mark_fields(Frequency.parse(checkpoint.frequency), kind))},
        "scaler": checkpoint.scaler,
        "notes": [
            "enc_x: the last seq_len rows of the columns, scaled: (x - center) / scale",
            "dec_x: the last label_len of these rows, then pred_len rows of zeros (future covariates: their values)",
            "forecast: scaled values of the targets; x * scale + center gives their own units",
            "quantiles: levels along a last axis of the forecast; [] is a forecast without that axis",
        ],
    }


def _torch_export(program: ExportedProgram) -> tuple[bytes, Run]:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    module = torch.export.load(io.BytesIO(buffer.getvalue())).module()
    return buffer.getvalue(), lambda windows: module(*windows)


def _need_onnx() -> None:
    for library in ("onnxscript", "onnxruntime"):
        try:
            importlib.import_module(library)
        except ImportError as error:
            raise InputError(f"format=onnx needs {library}: pip install 'informer[export]'") from error


def _onnx(program: ExportedProgram) -> tuple[bytes, Run]:
    import onnxruntime

    # it would tell that torchvision, which is not used, is absent
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    converted = torch.onnx.export(program, input_names=INPUTS, output_names=[OUTPUT], dynamo=True, verbose=False)
    assert converted is not None
    content = converted.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(windows: tuple[Tensor, ...]) -> Tensor:
        arrays = dict(zip(INPUTS, (x.numpy() for x in windows), strict=True))
        return torch.from_numpy(np.asarray(session.run([OUTPUT], arrays)[0]))

    return content, run


@torch.no_grad()
def _difference(model: nn.Module, run: Run, windows: tuple[Tensor, ...]) -> float:
    return float((run(windows) - model(*windows)).abs().max())


def _mechanisms(model: nn.Module) -> str:
    layers = model.attention_layers().values()  # type: ignore[operator]
    return ", ".join(sorted({type(layer.attention).__name__ for layer in layers}))
