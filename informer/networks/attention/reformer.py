"""LSH attention (Kitaev et al. 2020, "Reformer", section 2), with separate projections of queries and keys.

  A = softmax over the union of n_hashes patterns, and j = i, of e^-0.5 q.k
  bucket(x) = argmax [x R, -x R],  R random [e n_buckets/2],  m = ceil(2 l / n_buckets)
  key j has rank r_j = #{j' < j : bucket(k_j') = bucket(k_j)}
  query i has place p_i = max(0, #{j <= i : bucket(k_j) = bucket(q_i)} - 1)
  a round allows (i, j) where the buckets are equal and floor(r_j / m) - floor(p_i / m) is -1 or 0, not causal also 1

Cost: O(l log l) time for sorting, O(l m) for products and O(l n_buckets) for hashing; O(l) memory. Ranks and places
count only earlier keys, so block borders do not depend on the future. n_buckets=1 is full attention.

A bucket's keys, in order of position, are cut into blocks of m. Blocks are numbered across buckets, and one number is
skipped between buckets, so that blocks whose numbers differ by at most 1 are neighbours in one bucket. A query gets the
number of the block that contains its position, and attends to the keys of this block and its neighbours. With m = 2
and keys in the buckets 0 0 1 0 1 0:

  bucket 0   keys 0 1 | 3 5   are blocks 0 and 1; number 2 is skipped
  bucket 1   keys 2 4         are block 3
  query 4 in bucket 0         three of its keys are at 4 or before, so it is in block 1 and attends to 0 1 3 5

All sizes depend on the lengths and never on the data, so that a recorded graph works for every input.
"""

from typing import TypeVar, final

import torch
import torch.nn.functional as F
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.blocks import Piece, Softmax, attend
from informer.networks.attention.full import FullAttention
from informer.networks.attention.parameters import at_least, stream
from informer.networks.ops import fast
from informer.networks.ops.chunks import map_gathers, rows_per_chunk
from informer.networks.ops.fast import int_hint, is_shape_only

Number = TypeVar("Number", int, Tensor)


Blocks = tuple[Tensor, Tensor, Tensor]
"""After one round of hashing, [n l] each, n counting batch and heads: the block number of each query, that of each key,
and the position of each key within its block."""

Tiles = tuple[Tensor, Tensor, Tensor]
"""Groups of queries with the same block number: the sequence of each tile [t 1], the positions of its queries [t r],
and those of the keys that they attend to [t w]; a position equal to l means none."""


@torch.no_grad()
def buckets(x: Tensor, rotation: Tensor) -> Tensor:
    """argmax over [x R, -x R] for x [b h l e], as [n l]; a rotation without columns gives one bucket."""
    if rotation.shape[1] == 0:
        return torch.zeros(x.shape[0] * x.shape[1], x.shape[2], dtype=torch.long, device=x.device)
    x = x.flatten(0, 1).to(torch.promote_types(x.dtype, torch.float32))
    rotation = rotation.to(x.dtype)
    step = rows_per_chunk(x.shape[0] * rotation.shape[1], x.shape[1], fast.cached(x))
    numbers = []
    for rows in x.split(step, dim=1):
        turned = rows @ rotation
        index = turned.abs().argmax(dim=-1, keepdim=True)
        numbers.append((index + rotation.shape[1] * (turned.gather(-1, index) < 0)).squeeze(-1))
    return torch.cat(numbers, dim=1)


def block_numbers(query: Tensor, key: Tensor, n_buckets: int, m: int) -> Blocks:
    """Number the blocks of m keys, for buckets of queries and keys [n l]."""
    length = key.shape[1]
    position = torch.arange(length, device=key.device)
    # Bucket and position in one number, so that the sorted keys are in order of bucket and can be searched.
    order = (key * length + position).sort(dim=1).values
    edges = _search(order, torch.arange(n_buckets + 1, device=key.device) * length)
    first = edges[:, :-1]
    blocks = _ceil_div(edges.diff(dim=1), m).clamp(min=1) + 1
    base = blocks.cumsum(dim=1) - blocks
    rank = torch.searchsorted(order, key * length + position) - first.gather(1, key)
    # Number of keys in the query's bucket up to and including its own position.
    n_keys = torch.searchsorted(order, query * length + position, right=True) - first.gather(1, query)
    query_block = base.gather(1, query) + (n_keys - 1).clamp(min=0) // m
    return query_block, base.gather(1, key) + rank // m, rank % m


def cut_tiles(blocks: Blocks, n_buckets: int, m: int, *, causal: bool) -> tuple[list[Tiles], Tensor]:
    """Tiles grouped by width, and the index of queries [n*l] among the rows of all tiles.

    A tile holds about m/2 queries, so that both small and large blocks need little padding.
    """
    (query, key, place), (n, length), device = blocks, blocks[1].shape, blocks[1].device
    position = torch.arange(length, device=device).expand(n, -1)
    n_blocks = 2 * n_buckets + length // m
    size = _ceil_div(m, 2)
    n_tiles = min(length, n_buckets + length // m) + length // size

    # With an empty block before the first and after the last.
    table = torch.full((n, (n_blocks + 2) * m), length, device=device)
    table = table.scatter(1, (key + 1) * m + place, position).unflatten(1, (-1, m))

    order = (query * length + position).sort(dim=1).values
    edges = _search(order, torch.arange(n_blocks + 1, device=device) * length)
    tiles_up_to = _ceil_div(edges.diff(dim=1), size).cumsum(dim=1)
    rank = torch.searchsorted(order, query * length + position) - edges.gather(1, query)
    slot = F.pad(tiles_up_to, (1, 0)).gather(1, query) * size + rank
    rows = torch.full((n, n_tiles * size), length, device=device).scatter(1, slot, position)

    block = _search(tiles_up_to, torch.arange(n_tiles, device=device), right=True).clamp(max=n_blocks - 1)
    key_blocks = block.unsqueeze(2) + torch.arange(2 if causal else 3, device=device)
    keys = table.gather(1, key_blocks.flatten(1).unsqueeze(2).expand(-1, -1, m))
    keys = keys.unflatten(1, key_blocks.shape[1:]).flatten(2)

    head = torch.arange(n, device=device)
    tiles = head.repeat_interleave(n_tiles)[:, None], rows.view(-1, size), keys.flatten(0, 1)
    return _by_width(tiles, (slot + head[:, None] * n_tiles * size).flatten(), length, m)


def _by_width(tiles: Tiles, slot: Tensor, length: int, m: int) -> tuple[list[Tiles], Tensor]:
    """Split tiles by width: most buckets have one block, whose tiles need no neighbours. Empty tiles are dropped.

    While a graph is recorded all tiles are kept, because their number depends on the data.
    """
    if torch.compiler.is_compiling():
        return [tiles], slot
    # Blocks and tiles are filled from the beginning.
    head, rows, keys = tiles
    filled, neighbours = rows[:, 0] < length, keys[:, [0, *range(2 * m, keys.shape[1], m)]]
    is_alone = (neighbours == length).all(dim=1)
    narrow, wide = (filled & is_alone).nonzero().flatten(), (filled & ~is_alone).nonzero().flatten()
    groups = [(head[narrow], rows[narrow], keys[narrow, m : 2 * m]), (head[wide], rows[wide], keys[wide])]
    moved = torch.empty_like(head[:, 0])
    moved[torch.cat([narrow, wide])] = torch.arange(len(narrow) + len(wide), device=slot.device)
    size = rows.shape[1]
    return [group for group in groups if len(group[0])], moved[slot // size] * size + slot % size


def marks(blocks: Blocks, *, causal: bool) -> tuple[Tensor, Tensor]:
    """Numbers of queries and keys [n l]; a pair is allowed in this round if they differ by at most 1."""
    query, key, _ = blocks
    return ((2 * query - 1).int(), (2 * key).int()) if causal else (query.int(), key.int())


def _search(order: Tensor, values: Tensor, *, right: bool = False) -> Tensor:
    """searchsorted of the same values [v] in every row of `order` [n l]."""
    return torch.searchsorted(order, values.expand(order.shape[0], -1).contiguous(), right=right)


def _ceil_div(a: Number, b: int) -> Number:
    return -(-a // b)


Marks = tuple[Tensor, Tensor]
"""See `reformer.marks`."""


@final
class ReformerAttention(Attention):
    """Softmax over keys with the same hash as the query.

    Args:
        spec: sizes and options of the layer.
        n_buckets: 1 (no hashing) or an even number; None means about len_k / 32.
        n_hashes: number of hashing rounds.
        seed: seed of the rotations, with the layer's index.
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
        shape, generator = (self.n_hashes, spec.d_head, self.n_buckets // 2), stream(seed, spec.layer_index)
        rotations = (
            torch.empty(shape) if is_shape_only() else torch.randn(shape, generator=generator, dtype=torch.float64)
        )
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
            for head, rows, keys in groups:
                # Positions among all rows of q, k and v; an index that means none is clamped into range and masked.
                at_q, at_k = (head * length + x.clamp(max=length - 1) for x in (rows, keys))
                index = at_q, at_k, rows.int(), keys.int()
                step = rows_per_chunk(at_q.shape[1] * at_k.shape[1], int_hint(at_q.shape[0]), fast.cached(flat_q))
                outs.append(map_gathers(run, flat_q, flat_k, flat_v, index, step=step).flatten(0, 1))
            return torch.cat(outs).index_select(0, slot).unflatten(0, (b, h, length))

        return piece
