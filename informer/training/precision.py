"""Number format of the products in training; weights, optimiser and losses are float32 in any case."""

from contextlib import AbstractContextManager
from enum import Enum

import torch


class Precision(Enum):
    """auto: bf16 where the processor or GPU multiplies it natively, else float32."""

    float32 = "float32"
    bf16 = "bf16"
    auto = "auto"

    def on(self, device: torch.device) -> "Precision":
        """What is taken on `device`: float32 or bf16."""
        if self is not Precision.auto:
            return self
        return Precision.bf16 if _has_native_bf16(device) else Precision.float32

    def context(self, device: torch.device) -> AbstractContextManager[object]:
        """What the forward pass of a step runs in."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self.on(device) is Precision.bf16)


def _has_native_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
