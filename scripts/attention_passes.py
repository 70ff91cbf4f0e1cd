"""Seconds and bytes of one forward and backward pass, each measured in a separate process (for the benchmark)."""

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch
from attention_packages import PACKAGES
from torch import Tensor, nn

from informer.build import build_attention
from informer.networks.attention.base import AttentionSpec

HEADS, WIDTH = 8, 64
TURNS, SECONDS_A_CELL = 15, 5.0
"""A pair takes TURNS turns, fewer once they have taken SECONDS_A_CELL together: one, where that takes as long."""
SHORT, LONG = 128, 1024
"""Lengths of the pass that brings in libraries and threads: before memory is read, and at most before time is."""

Result = TypeVar("Result")


@dataclass(kw_only=True, frozen=True, slots=True)
class Contender:
    """A mechanism with its parameters, or a package, to measure."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    is_package: bool = False

    def build(self, spec: AttentionSpec) -> nn.Module:
        """A module of q, k, v [b h l e]."""
        return PACKAGES[self.name].build(spec) if self.is_package else build_attention(self.name, spec, **self.params)


@dataclass(kw_only=True, frozen=True, slots=True)
class Setup:
    """Settings shared by all measurements of a run."""

    causal: bool
    device: str
    threads: int
    clock: str
    """wall, or cpu: seconds that the threads worked, whoever else uses the machine."""

    def now(self) -> float:
        """Seconds on the chosen clock."""
        return time.perf_counter() if self.clock == "wall" else time.process_time()

    def inputs(self, length: int) -> list[Tensor]:
        """q, k, v and the gradient of the output, [1 HEADS length WIDTH]; sets the process up."""
        torch.set_num_threads(self.threads)
        torch.manual_seed(0)
        q, k, v, upstream = (torch.randn(1, HEADS, length, WIDTH, device=self.device) for _ in range(4))
        return [q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), upstream]

    def make_pass(self, contender: Contender, inputs: list[Tensor]) -> Callable[[], None]:
        """A call that runs forward and backward once and waits for the device."""
        *leaves, upstream = inputs
        length = upstream.shape[2]
        spec = AttentionSpec(n_heads=HEADS, d_head=WIDTH, len_q=length, len_k=length, causal=self.causal)
        attn = contender.build(spec).to(self.device).train()

        def run() -> None:
            attn(*leaves).backward(upstream)
            for leaf in (*leaves, *attn.parameters()):
                leaf.grad = None
            if self.device == "cuda":
                torch.cuda.synchronize()

        return run


def seconds_of_turns(setup: Setup, contenders: list[Contender], length: int) -> list[list[float]]:
    """Seconds of every turn of each contender; they take turns, so that noise affects all alike."""
    warm = setup.inputs(min(length, LONG))
    for contender in contenders:
        setup.make_pass(contender, warm)()
    inputs = setup.inputs(length)
    passes = [setup.make_pass(contender, inputs) for contender in contenders]
    seconds: list[list[float]] = [[] for _ in contenders]
    while len(seconds[0]) < TURNS and sum(map(sum, seconds)) < SECONDS_A_CELL:
        for run, turns in zip(passes, seconds, strict=True):
            start = setup.now()
            run()
            turns.append(setup.now() - start)
    return seconds


def peak_bytes(setup: Setup, contender: Contender, length: int) -> float:
    """Peak bytes of building and one pass, beyond the inputs; NaN if the system does not report it."""
    setup.make_pass(contender, setup.inputs(SHORT))()
    inputs = setup.inputs(length)
    if setup.device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        setup.make_pass(contender, inputs)()
        return float(torch.cuda.max_memory_allocated() - before)
    if not Path("/proc/self/status").exists():
        return math.nan
    before = resident("VmRSS")
    setup.make_pass(contender, inputs)()
    return float(resident("VmHWM") - before)


def resident(key: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(key))


def in_fresh_process(function: Callable[..., Result], *arguments: Any) -> Result:
    """`function(*arguments)` computed in a new process.

    Raises:
        BrokenProcessPool: the system killed it, most likely for memory.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch", "informer.build"])  # imported once, in a server that runs nothing itself
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()
