"""What `torch.compile` leaves to Python."""

from torch._compile import _disable_dynamo

outside_graphs = _disable_dynamo
"""`torch.compiler.disable` as a decorator that imports torch's compiler when the function is first called; the public
one does so when a class is defined, and who only restores a network would wait for it."""
