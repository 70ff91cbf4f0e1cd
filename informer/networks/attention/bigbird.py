"""Big Bird: window, global positions and random keys (Zaheer et al. 2020).

  A_ij = softmax of e^-0.5 q_i.k_j over keys |i - j| <= window // 2, the global columns, and n_random keys of row i
  rows at global positions see all keys           causal: each set restricted to j <= i

BigBird is the paper's ITC form; its global positions are round(linspace(0, L - 1, n_global)) or a given list.
BigBirdETC is its ETC form, with n_global learned summaries of the sequence (see `etc`) instead of global positions, and
therefore no causal form.
Random keys are drawn once per head and row, from (seed, layer_index), outside the row's window and the globals.
Cost: O(L (window + n_global + n_random)) time and memory. With window // 2 >= L - 1 (BigBirdETC: also n_global = 0)
it equals `full`.
"""

from collections.abc import Sequence
from functools import partial
from typing import final

import torch
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.blocks import Piece, attend, band, gathered
from informer.networks.attention.global_positions import global_columns, place_globals, with_global_rows
from informer.networks.attention.parameters import at_least, stream
from informer.networks.attention.summary_tokens import SummaryAttention
from informer.networks.ops.fast import is_shape_only


@final
class BigBirdAttention(Attention):
    """Softmax over a window, the global positions and random keys.

    Args:
        spec: sizes and options of the layer.
        window: size of the window, window // 2 keys on either side of the row.
        n_global: number of global positions, evenly spaced from the first to the last.
        global_positions: explicit global positions instead of evenly spaced ones; negative values count from the end.
        n_random: random keys per row; fewer if fewer keys remain.
        seed: seed of the random keys, with the layer's index.
    """

    CROSS = False
    COST = "O(L (window + n_global + n_random)) time and memory"
    FULL_WHEN = {"window": 10**7}  # noqa: RUF012 (a class constant of the contract)

    where: Tensor
    random_keys: Tensor

    def __init__(
        self,
        spec: AttentionSpec,
        *,
        window: int = 16,
        n_global: int = 2,
        global_positions: Sequence[int] | None = None,
        n_random: int = 8,
        seed: int = 0,
    ) -> None:
        super().__init__(spec)
        self.reach = min(at_least("window", window, 0) // 2, spec.len_k)
        where = place_globals(spec.len_k, n_global, global_positions)
        self.register_buffer("where", where, persistent=False)
        self.register_buffer("random_keys", draw_keys(spec, self.reach, where, n_random, seed))

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """Sparse softmax attention, with dropout on the weights in training.

        Raises:
            ValueError: the length differs from the one for which the random keys were drawn.
        """
        self.check_lengths(q, k)
        causal = self.spec.causal
        scaled = q * self.spec.d_head**-0.5
        pieces = _window_and_random(scaled, k, v, self.p, self.reach, causal, self.random_keys)
        if not len(self.where):
            return attend(pieces, v.dtype)
        pieces.append(global_columns(scaled, k, v, self.p, where=self.where, near=self._near, causal=causal))
        return with_global_rows(attend(pieces, v.dtype), scaled, k, v, self.p, where=self.where, causal=causal)

    def _near(self, i: Tensor, j: Tensor) -> Tensor:
        return (i - j).abs() <= self.reach


@final
class BigBirdETC(SummaryAttention):
    """Softmax over a window, random keys and the summaries of the sequence.

    Args:
        spec: sizes and options of the layer.
        window: size of the window, window // 2 keys on either side of the row.
        n_global: number of learned summaries.
        n_random: random keys per row; fewer if fewer keys remain.
        seed: seed of the random keys, with the layer's index.
    """

    COST = "O(L (window + n_global + n_random)) time and memory"
    FULL_WHEN = {"window": 10**7, "n_global": 0}  # noqa: RUF012 (a class constant of the contract)

    random_keys: Tensor

    def __init__(
        self, spec: AttentionSpec, *, window: int = 16, n_global: int = 2, n_random: int = 8, seed: int = 0
    ) -> None:
        super().__init__(spec, n_global)
        self.reach = min(at_least("window", window, 0) // 2, spec.len_k)
        nowhere = torch.empty(0, dtype=torch.int64)
        self.register_buffer("random_keys", draw_keys(spec, self.reach, nowhere, n_random, seed))

    def local_pieces(self, q: Tensor, k: Tensor, v: Tensor) -> list[Piece]:
        """See `SummaryAttention`."""
        self.check_lengths(q, k)
        return _window_and_random(q, k, v, self.p, self.reach, False, self.random_keys)


def draw_keys(spec: AttentionSpec, reach: int, where: Tensor, n_random: int, seed: int) -> Tensor:
    """Random keys [h l r] of each head and row: distinct, outside the row's window and `where`; -1 means none.

    Uses Floyd's algorithm on the ranks of the candidate keys; never forms an array of all pairs.
    """
    at_least("n_random", n_random, 0)
    generator = stream(seed, spec.layer_index)
    if is_shape_only():
        return torch.empty(spec.n_heads, spec.len_q, min(n_random, spec.len_k - len(where)), dtype=torch.int64)
    drawable = torch.ones(spec.len_k, dtype=torch.bool)
    drawable[where] = False
    keys = drawable.to(torch.uint8).argsort(descending=True, stable=True)[: spec.len_k - len(where)]
    row = torch.arange(spec.len_q)
    # Among the sorted candidates, first .. last - 1 are in the row's window.
    first = torch.searchsorted(keys, row - reach)
    last = torch.searchsorted(keys, row if spec.causal else row + reach, right=True)
    n_candidates = (first if spec.causal else len(keys) - (last - first)).expand(spec.n_heads, -1)

    selected = torch.full((spec.n_heads, spec.len_q, min(n_random, len(keys))), -1)
    for n in range(selected.shape[-1]):
        # Draw n of min(r, n_candidates) takes a rank up to `top`, or `top` itself if that rank is taken.
        top = n_candidates - n_candidates.clamp(max=selected.shape[-1]) + n
        rank = (torch.rand(top.shape, dtype=torch.float64, generator=generator) * (top + 1)).long()
        rank = torch.where((selected == rank[..., None]).any(dim=-1), top, rank)
        selected[..., n] = torch.where(top < n_candidates, rank, -1)
    skipped = selected + torch.where(selected >= first[:, None], (last - first)[:, None], 0)
    return torch.where(selected < 0, -1, keys[skipped.clamp(min=0)]) if selected.numel() else selected


def _window_and_random(
    q: Tensor, k: Tensor, v: Tensor, p: float, reach: int, causal: bool, random_keys: Tensor
) -> list[Piece]:
    pieces: list[Piece] = [partial(band, q, k, v, p, left=reach, right=0 if causal else reach)]
    if random_keys.shape[-1]:
        pieces.append(partial(gathered, q, k, v, p, index=random_keys))
    return pieces
