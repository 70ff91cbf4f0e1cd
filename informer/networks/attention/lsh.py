"""Locality-sensitive hashing (Kitaev et al. 2020, "Reformer", section 2), and the tiles in which it is computed.

A bucket's keys, in order of position, are cut into blocks of m. Blocks are numbered across buckets, and one number is
skipped between buckets, so that blocks whose numbers differ by at most 1 are neighbours in one bucket. A query gets the
number of the block that contains its position, and attends to the keys of this block and its neighbours. With m = 2
and keys in the buckets 0 0 1 0 1 0:

  bucket 0   keys 0 1 | 3 5   are blocks 0 and 1; number 2 is skipped
  bucket 1   keys 2 4         are block 3
  query 4 in bucket 0         three of its keys are at 4 or before, so it is in block 1 and attends to 0 1 3 5

All sizes depend on the lengths and never on the data, so that a recorded graph works for every input.
"""

from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from informer.networks.ops import fast
from informer.networks.ops.chunks import rows_per_chunk
from informer.networks.ops.fast import is_shape_only

Number = TypeVar("Number", int, Tensor)


class Blocks(NamedTuple):
    """Blocks of queries and keys after one round of hashing; n counts batch and heads."""

    query: Tensor
    """Block number of each query [n l]."""
    key: Tensor
    """Block number of each key [n l]."""
    position: Tensor
    """Position of each key within its block [n l]."""


class Tiles(NamedTuple):
    """Groups of queries with the same block number, and the keys they attend to; an index equal to l means none."""

    head: Tensor
    """Which of the n sequences a tile belongs to [t 1]."""
    rows: Tensor
    """Positions of the queries [t r]."""
    keys: Tensor
    """Positions of the keys [t w]."""


def draw_rotations(e: int, n_buckets: int, n_hashes: int, seed: int, layer_index: int) -> Tensor:
    """Random rotations [n_hashes e n_buckets/2] in float64, one stream per (seed, layer_index)."""
    if is_shape_only():
        return torch.empty(n_hashes, e, n_buckets // 2, dtype=torch.float64)
    generator = torch.Generator().manual_seed(((seed << 20) + layer_index) % 2**64)
    return torch.randn(n_hashes, e, n_buckets // 2, generator=generator, dtype=torch.float64)


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
    return Blocks(query_block, base.gather(1, key) + rank // m, rank % m)


def cut_tiles(blocks: Blocks, n_buckets: int, m: int, *, causal: bool) -> tuple[list[Tiles], Tensor]:
    """Tiles grouped by width, and the index of queries [n*l] among the rows of all tiles.

    A tile holds about m/2 queries, so that both small and large blocks need little padding.
    """
    n, length = blocks.key.shape
    device = blocks.key.device
    position = torch.arange(length, device=device).expand(n, -1)
    n_blocks = 2 * n_buckets + length // m
    size = _ceil_div(m, 2)
    n_tiles = min(length, n_buckets + length // m) + length // size

    # With an empty block before the first and after the last.
    table = torch.full((n, (n_blocks + 2) * m), length, device=device)
    table = table.scatter(1, (blocks.key + 1) * m + blocks.position, position).unflatten(1, (-1, m))

    order = (blocks.query * length + position).sort(dim=1).values
    edges = _search(order, torch.arange(n_blocks + 1, device=device) * length)
    tiles_up_to = _ceil_div(edges.diff(dim=1), size).cumsum(dim=1)
    rank = torch.searchsorted(order, blocks.query * length + position) - edges.gather(1, blocks.query)
    slot = F.pad(tiles_up_to, (1, 0)).gather(1, blocks.query) * size + rank
    rows = torch.full((n, n_tiles * size), length, device=device).scatter(1, slot, position)

    block = _search(tiles_up_to, torch.arange(n_tiles, device=device), right=True).clamp(max=n_blocks - 1)
    key_blocks = block.unsqueeze(2) + torch.arange(2 if causal else 3, device=device)
    keys = table.gather(1, key_blocks.flatten(1).unsqueeze(2).expand(-1, -1, m))
    keys = keys.unflatten(1, key_blocks.shape[1:]).flatten(2)

    head = torch.arange(n, device=device)
    tiles = Tiles(head.repeat_interleave(n_tiles)[:, None], rows.view(-1, size), keys.flatten(0, 1))
    return _by_width(tiles, (slot + head[:, None] * n_tiles * size).flatten(), length, m)


def _by_width(tiles: Tiles, slot: Tensor, length: int, m: int) -> tuple[list[Tiles], Tensor]:
    """Split tiles by width: most buckets have one block, whose tiles need no neighbours. Empty tiles are dropped.

    While a graph is recorded all tiles are kept, because their number depends on the data.
    """
    if torch.compiler.is_compiling():
        return [tiles], slot
    # Blocks and tiles are filled from the beginning.
    filled = tiles.rows[:, 0] < length
    neighbours = tiles.keys[:, [0, *range(2 * m, tiles.keys.shape[1], m)]]
    is_alone = (neighbours == length).all(dim=1)
    narrow, wide = (filled & is_alone).nonzero().flatten(), (filled & ~is_alone).nonzero().flatten()
    groups = [Tiles(*(x[ids] for x in tiles)) for ids in (narrow, wide)]
    groups[0] = groups[0]._replace(keys=groups[0].keys[:, m : 2 * m])
    moved = torch.empty_like(tiles.head[:, 0])
    moved[torch.cat([narrow, wide])] = torch.arange(len(narrow) + len(wide), device=slot.device)
    size = tiles.rows.shape[1]
    return [group for group in groups if len(group.head)], moved[slot // size] * size + slot % size


def marks(blocks: Blocks, *, causal: bool) -> tuple[Tensor, Tensor]:
    """Numbers of queries and keys [n l]; a pair is allowed in this round if they differ by at most 1."""
    if causal:
        return (2 * blocks.query - 1).int(), (2 * blocks.key).int()
    return blocks.query.int(), blocks.key.int()


def _search(order: Tensor, values: Tensor, *, right: bool = False) -> Tensor:
    """searchsorted of the same values [v] in every row of `order` [n l]."""
    return torch.searchsorted(order, values.expand(order.shape[0], -1).contiguous(), right=right)


def _ceil_div(a: Number, b: int) -> Number:
    return -(-a // b)
