"""Factorised sparse attention against a loop over pairs."""

import pytest
import torch
from naive import draw
from patterns import SIZES, assert_pattern

from informer.networks.attention import sparse
from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.sparse import SparseAttention

BOTH = pytest.mark.parametrize("pattern", ["strided", "fixed"])


def sets_of(pattern, stride, c, length, *, causal):
    """A1 and A2 as the paper writes them, as lists of sets; an empty set becomes the row itself."""
    keys = [range(i + 1 if causal else length) for i in range(length)]
    if pattern == "strided":
        first = [{j for j in keys[i] if i - stride <= j <= i + stride} for i in range(length)]
        second = [{j for j in keys[i] if (i - j) % stride == 0} for i in range(length)]
    else:
        first = [{j for j in keys[i] if j // stride == i // stride} for i in range(length)]
        second = [{j for j in keys[i] if j % stride >= stride - c} for i in range(length)]
    return first, [found or {i} for i, found in enumerate(second)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("stride", "c"), [(1, 1), (2, 1), (5, 2), (5, 9), (40, 1), (10**12, 3)])
@BOTH
@pytest.mark.parametrize("sizes", SIZES)
def test_split_and_merged_heads_equal_the_formula(sizes, pattern, stride, c, causal):
    _, n_heads, length, *_ = sizes
    first, second = sets_of(pattern, stride, c, length, causal=causal)
    halves = [first if 2 * h < n_heads else second for h in range(n_heads)]
    union = [a | b for a, b in zip(first, second, strict=True)]
    for heads, sets in (("split", halves), ("merge", [union] * n_heads)):
        assert_pattern(
            lambda spec, heads=heads: SparseAttention(spec, pattern=pattern, stride=stride, c=c, heads=heads),
            sizes,
            lambda h, i, j, sets=sets: j in sets[h][i],
            causal=causal,
        )


@pytest.mark.parametrize("layer_index", [0, 1, 2])
@BOTH
def test_layers_alternate(pattern, layer_index):
    sizes = (1, 2, 23, 23, 3, 3)
    chosen = sets_of(pattern, 5, 1, 23, causal=False)[layer_index % 2]
    spec = AttentionSpec(2, 3, 23, 23, layer_index=layer_index)
    attn = SparseAttention(spec, pattern=pattern, stride=5, heads="alternate")
    assert_pattern(lambda _: attn, sizes, lambda _, i, j: j in chosen[i], causal=False)


@pytest.mark.parametrize(("length", "stride"), [(1, 1), (2, 1), (31, 6), (97, 10)])
def test_the_stride_is_the_root_of_the_length_by_default(length, stride):
    assert SparseAttention(AttentionSpec(1, 2, length, length), pattern="strided").stride == stride


def test_first_rows_without_columns_see_themselves():
    sizes = (1, 1, 7, 7, 3, 3)
    attn = SparseAttention(AttentionSpec(1, 3, 7, 7, True, layer_index=1), pattern="fixed", stride=4, heads="alternate")
    q, k, v = draw(sizes)
    torch.testing.assert_close(attn(q, k, v)[:, :, :3], v[:, :, :3])


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_too_large_for_one_product_are_cut_as_bands(monkeypatch, causal):
    monkeypatch.setattr(sparse, "MAX_ELEMENTS", 1)
    first, _ = sets_of("fixed", 9, 1, 31, causal=causal)
    make = lambda spec: SparseAttention(spec, pattern="fixed", stride=9)  # noqa: E731
    assert_pattern(make, (1, 1, 31, 31, 4, 4), lambda _, i, j: j in first[i], causal=causal)
