"""Exclude functions from graphs of `torch.compile`."""

from torch._compile import _disable_dynamo

outside_graphs = _disable_dynamo
"""Like the decorator `torch.compiler.disable`, but torch's compiler is only imported when the function is first called.
The public decorator imports it when a class is defined, which would delay every restoring of a network."""
