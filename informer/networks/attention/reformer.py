"""LSH attention (Kitaev et al. 2020, "Reformer", section 2), with separate projections of queries and keys.

  A = softmax over the union of n_hashes patterns, and j = i, of e^-0.5 q.k
  bucket(x) = argmax [x R, -x R],  R random [e n_buckets/2],  m = ceil(2 l / n_buckets)
  key j has rank r_j = #{j' < j : bucket(k_j') = bucket(k_j)}
  query i has place p_i = max(0, #{j <= i : bucket(k_j) = bucket(q_i)} - 1)
  a round allows (i, j) where the buckets are equal and floor(r_j / m) - floor(p_i / m) is -1 or 0, not causal also 1

Cost: O(l log l) time for sorting, O(l m) for products and O(l n_buckets) for hashing; O(l) memory. Ranks and places
count only earlier keys, so block borders do not depend on the future. n_buckets=1 is full attention.
"""

from typing import final

import torch
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Matrix, Outputs, Queries, Values
from informer.networks.attention.blocks import Piece, Softmax, attend, pattern_weights
from informer.networks.attention.full import FullAttention
from informer.networks.attention.lsh import Blocks, block_numbers, buckets, cut_tiles, draw_rotations, marks
from informer.networks.attention.parameters import at_least
from informer.networks.ops import fast
from informer.networks.ops.chunks import map_gathers, rows_per_chunk
from informer.networks.ops.fast import int_hint

Marks = tuple[Tensor, Tensor]
"""See `lsh.marks`."""


@final
class ReformerAttention(Attention):
    """Softmax over keys with the same hash as the query.

    Args:
        spec: sizes and options of the layer.
        n_buckets: 1 (no hashing) or an even number; None means about len_k / 32.
        n_hashes: number of hashing rounds.
        seed: seed of the rotations, combined with the layer's index.
    """

    CROSS = False
    COST = "O(L (log L + n_buckets)) time, O(L) memory"
    FULL_WHEN = {"n_buckets": 1}  # noqa: RUF012 (a class constant of the contract)

    def __init__(self, spec: AttentionSpec, *, n_buckets: int | None = None, n_hashes: int = 4, seed: int = 0) -> None:
        super().__init__(spec)
        default = 2 * max(1, round(spec.len_k / 64))
        self.n_buckets = default if n_buckets is None else at_least("n_buckets", n_buckets, 1)
        if self.n_buckets > 1 and self.n_buckets % 2:
            raise ValueError(f"n_buckets: expected 1 or an even number, found {n_buckets}")
        self.n_hashes = at_least("n_hashes", n_hashes, 1)
        seed = at_least("seed", seed, 0)
        rotations = draw_rotations(spec.d_head, self.n_buckets, self.n_hashes, seed, spec.layer_index)
        self.rotations: Tensor
        self.register_buffer("rotations", rotations.to(torch.get_default_dtype()))
        self.full = FullAttention(spec) if self.n_buckets == 1 else None

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """One softmax over the pairs of all rounds, counting each pair once."""
        if self.full is not None:
            return self.full(q, k, v)
        scaled = q * q.shape[-1] ** -0.5

        def itself(softmax: Softmax) -> Tensor:
            q, k_, v_ = (x.unsqueeze(3) for x in (scaled, k, v))
            return softmax(q, k_, v_, None, self.p).squeeze(3)

        pieces: list[Piece] = [itself]
        earlier: list[Marks] = []
        for rotation in self.rotations:
            blocks = block_numbers(buckets(q, rotation), buckets(k, rotation), self.n_buckets, self._block(k))
            pieces.append(self._round(scaled, k, v, blocks, tuple(earlier)))
            earlier.append(marks(blocks, causal=self.spec.causal))
        return attend(pieces, v.dtype)

    def weights(self, q: Queries, k: Keys) -> Matrix:
        """Softmax of e^-0.5 q.k over the union of the rounds and the diagonal."""
        length = k.shape[2]
        up_to = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
        allowed = torch.eye(length, dtype=torch.bool, device=q.device).expand(*q.shape[:2], -1, -1)
        for rotation in self.rotations:
            of_q, of_k = (buckets(x, rotation).unflatten(0, q.shape[:2]) for x in (q, k))
            before = (of_k.unsqueeze(3) == of_k.unsqueeze(2)) & up_to
            equal = of_q.unsqueeze(3) == of_k.unsqueeze(2)
            rank = before.sum(dim=-1) - 1
            query_rank = ((equal & up_to).sum(dim=-1) - 1).clamp(min=0)
            blocks_on = rank.unsqueeze(2) // self._block(k) - query_rank.unsqueeze(3) // self._block(k)
            allowed = allowed | (equal & (blocks_on.abs() <= 1))
        return pattern_weights(q, k, allowed & up_to if self.spec.causal else allowed)

    def _block(self, k: Tensor) -> int:
        """Number of keys in a block: twice the average bucket."""
        return -(-2 * k.shape[2] // self.n_buckets)

    def _round(self, q: Tensor, k: Tensor, v: Tensor, blocks: Blocks, earlier: tuple[Marks, ...]) -> Piece:
        """The pairs of one round, except the diagonal and pairs of earlier rounds."""
        (b, h, length, _), causal, p = k.shape, self.spec.causal, self.p
        groups, slot = cut_tiles(blocks, self.n_buckets, self._block(k), causal=causal)

        def piece(softmax: Softmax) -> Tensor:
            def run(q: Tensor, k: Tensor, v: Tensor, at_q: Tensor, at_k: Tensor, i: Tensor, j: Tensor) -> Tensor:
                i, j = i.unsqueeze(2), j.unsqueeze(1)
                allowed = j < i if causal else (j != i) & (j < length)
                for of_q, of_k in earlier:
                    distance = of_q.flatten()[at_q].unsqueeze(2) - of_k.flatten()[at_k].unsqueeze(1)
                    allowed &= distance.abs_() > 1
                return softmax(q, k, v, allowed, p)

            flat_q, flat_k, flat_v = (x.flatten(0, 2) for x in (q, k, v))
            outs = []
            for tiles in groups:
                # Positions among all rows of q, k and v; an index that means none is clamped into range and masked.
                at_q, at_k = (tiles.head * length + x.clamp(max=length - 1) for x in (tiles.rows, tiles.keys))
                index = at_q, at_k, tiles.rows.int(), tiles.keys.int()
                step = rows_per_chunk(at_q.shape[1] * at_k.shape[1], int_hint(at_q.shape[0]), fast.cached(flat_q))
                outs.append(map_gathers(run, flat_q, flat_k, flat_v, index, step=step).flatten(0, 1))
            return torch.cat(outs).index_select(0, slot).unflatten(0, (b, h, length))

        return piece
