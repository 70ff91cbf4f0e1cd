"""Precision of matrix products in training; weights, optimiser and losses are always float32."""

from contextlib import AbstractContextManager

import torch

from informer.config.training import Precision


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """The precision to use on `device`: float32 or bf16."""
    if precision is not Precision.auto:
        return precision
    return Precision.bf16 if _has_native_bf16(device) else Precision.float32


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Context for the forward pass of a step."""
    enabled = resolve_precision(precision, device) is Precision.bf16
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def _has_native_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
