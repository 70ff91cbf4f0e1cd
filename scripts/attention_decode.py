"""Time of one decoding step by number of previous positions (for the benchmark).

Mechanisms with a recurrent form have a state; full attention reads a cache of all keys and values. Before a step is
timed, state or cache have processed the previous positions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import torch
import torch.nn.functional as F
from attention_passes import HEADS, WIDTH, Setup
from result_files import markdown_table
from torch import Tensor

from informer.build import attention_class, attention_names, attention_node, build_attention
from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.recurrent import RecurrentAttention

CACHED = "full"
"""The mechanism that keeps keys and values."""
STEPS = 64
"""Steps timed at each position; their median counts."""

Step = Callable[[Tensor, Tensor, Tensor], None]


@dataclass(kw_only=True, slots=True)
class DecodeCell:
    """One mechanism at one position."""

    attn: str
    position: int
    """Positions before the step."""
    seconds: float
    """Median of one step."""
    kept_bytes: int
    """Of the state, or of the keys and values in use."""


def recurrent_names() -> list[str]:
    """Names of `attn=` whose mechanism has a recurrent form."""
    classes = {name: attention_class(attention_node(name)["_target_"]) for name in attention_names()}
    return [name for name, cls in classes.items() if issubclass(cls, RecurrentAttention)]


class StateDecoder:
    """Decoder with the state of a recurrent mechanism."""

    def __init__(self, name: str, length: int, device: str) -> None:
        spec = AttentionSpec(n_heads=HEADS, d_head=WIDTH, len_q=length, len_k=length, causal=True)
        attention = build_attention(name, spec).to(device).eval()
        assert isinstance(attention, RecurrentAttention)
        self.attention = attention
        self.state = attention.initial_state(1, device=device)

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        """Process one position; returns its output row."""
        _, self.state = self.attention.step(self.state, q, k, v)

    def skip(self, k: Tensor, v: Tensor) -> None:
        """Process positions [1 h n e] without computing output rows."""
        for key, value in zip(k.unbind(dim=2), v.unbind(dim=2), strict=True):
            self.step(key, key, value)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the state."""
        return sum(tensor.nbytes for tensor in self.state)


class CacheDecoder:
    """Full attention over a preallocated cache of all keys and values so far."""

    def __init__(self, length: int, device: str) -> None:
        self.k, self.v = (torch.zeros(1, HEADS, length, WIDTH, device=device) for _ in "kv")
        self.position = 0

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        """Process one position; returns its output row."""
        self.skip(k.unsqueeze(2), v.unsqueeze(2))
        F.scaled_dot_product_attention(q.unsqueeze(2), self.k[:, :, : self.position], self.v[:, :, : self.position])

    def skip(self, k: Tensor, v: Tensor) -> None:
        """Process positions [1 h n e] without computing output rows."""
        end = self.position + k.shape[2]
        self.k[:, :, self.position : end], self.v[:, :, self.position : end] = k, v
        self.position = end

    @property
    def kept_bytes(self) -> int:
        """Bytes of the keys and values in use."""
        return 2 * self.k[:, :, : self.position].numel() * self.k.itemsize


@torch.inference_mode()
def decode(setup: Setup, name: str, positions: list[int]) -> Iterator[DecodeCell]:
    """Cells of one mechanism, the earliest position first."""
    torch.set_num_threads(setup.threads)
    torch.manual_seed(0)
    room = max(positions) + STEPS + 1
    decoder: CacheDecoder | StateDecoder = (
        CacheDecoder(room, setup.device) if name == CACHED else StateDecoder(name, room, setup.device)
    )
    behind = 0
    for position in sorted(set(positions)):
        k, v = (torch.randn(1, HEADS, max(0, position - behind), WIDTH, device=setup.device) for _ in "kv")
        decoder.skip(k, v)
        state_bytes, seconds = decoder.kept_bytes, _seconds_of_steps(setup, decoder.step)
        behind = max(behind, position) + STEPS + 1
        yield DecodeCell(attn=name, position=position, seconds=seconds, kept_bytes=state_bytes)


def _seconds_of_steps(setup: Setup, step: Step) -> float:
    """Median over STEPS steps, after a warm-up step."""
    seconds = []
    for _ in range(STEPS + 1):
        q, k, v = (torch.randn(1, HEADS, WIDTH, device=setup.device) for _ in range(3))
        start = setup.now()
        step(q, k, v)
        if setup.device == "cuda":
            torch.cuda.synchronize()
        seconds.append(setup.now() - start)
    return median(seconds[1:])


def decode_table(cells: list[DecodeCell]) -> str:
    """Milliseconds per step and bytes of state, one line per mechanism."""
    positions = sorted({cell.position for cell in cells})
    rows = []
    for name in dict.fromkeys(cell.attn for cell in cells):
        by_position = {cell.position: cell for cell in cells if cell.attn == name}
        sizes = [by_position[p].kept_bytes / 2**20 for p in (min(by_position), max(by_position))]
        size = f"{sizes[0]:.3g}" if sizes[0] == sizes[1] else f"{sizes[0]:.3g} to {sizes[1]:.3g}"
        rows.append(
            [f"`{name}`", *(f"{1e3 * by_position[p].seconds:.3g}" if p in by_position else "" for p in positions), size]
        )
    return markdown_table(["milliseconds a step after", *map(str, positions), "MiB kept"], rows)
