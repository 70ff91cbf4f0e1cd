"""Conversions to ONNX in one process share torch's registry of operators, which takes half a second to fill."""

from functools import cache


def registry_once() -> None:
    """Let torch fill it once; conversions read it."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    if not hasattr(ONNXRegistry.from_torchlib, "cache_info"):
        ONNXRegistry.from_torchlib = staticmethod(cache(ONNXRegistry.from_torchlib))
