"""Chunks of sequences and rows: within their bound, few, and each result in its place."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from informer.networks.ops import chunks as chunking
from informer.networks.ops.chunks import CAUSAL_CHUNKS, chunk_sizes, map_rows


@given(st.integers(1, 40), st.integers(1, 500), st.integers(1, 3000), st.integers(1, 10**6), st.booleans())
def test_chunks_keep_to_their_bound_and_waste_little_of_it(n_batch, n_rows, size, bound, causal):
    group, step = chunk_sizes(n_batch, n_rows, size, bound, causal=causal)
    assert 1 <= group <= n_batch
    assert 1 <= step <= n_rows
    assert group * step * size <= bound or (group, step) == (1, 1)
    if n_batch * n_rows * size <= bound:
        assert (group, step) == (n_batch, n_rows)
    else:
        rows = -(-n_rows // CAUSAL_CHUNKS) if causal else n_rows
        assert step == rows or (step + 1) * size > bound  # rows first: sequences do not share a gradient
        assert group == n_batch or (group + 1) * step * size > bound


def weighted(rows, keys, weight, start):
    """An output that differs by row, by sequence and by weight."""
    index = torch.arange(start, start + rows.shape[2], dtype=rows.dtype)[:, None]
    return (rows @ keys.mT * index).softmax(-1) @ keys * weight


@pytest.mark.parametrize("bound", [1, 2 * 5 * 3, 5 * 7, 2 * 5 * 7])
def test_each_chunk_is_put_in_its_place_and_so_is_its_gradient(monkeypatch, bound):
    monkeypatch.setattr(chunking, "MAX_ELEMENTS", 0)
    torch.manual_seed(0)
    shapes = (5, 1, 7, 4), (5, 1, 5, 4), (5, 1, 1, 4)
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    q, *operands = inputs
    seen = []

    def attend(rows, *operands):
        seen.append(rows.shape[0] * rows.shape[2])
        return weighted(rows, *operands)

    out = map_rows(attend, q, *operands, width=5, max_elements=bound)
    assert len(seen) > 1
    assert sum(seen) == 5 * 7
    expected = weighted(q, *operands, 0)
    torch.testing.assert_close(out, expected)
    grad = torch.randn_like(out)
    torch.testing.assert_close(*(torch.autograd.grad(y, inputs, grad) for y in (out, expected)))


def test_queries_of_one_sequence_serve_the_values_of_many():
    q, values = torch.randn(1, 2, 6, 3), torch.randn(4, 2, 3, 5)
    out = map_rows(lambda rows, v, start: rows @ v, q, values, width=3, max_elements=12)
    torch.testing.assert_close(out, q @ values)


def test_sequences_are_split_before_rows():
    """A long batch is cut so that no two chunks add to the same keys."""
    calls = []
    q, k = torch.randn(6, 2, 4, 3), torch.randn(6, 2, 8, 3)
    map_rows(
        lambda rows, keys, start: calls.append((rows.shape[0], rows.shape[2])) or rows @ keys.mT,
        q, k, width=8, max_elements=2 * 2 * 4 * 8,
    )  # fmt: skip
    assert calls == [(2, 4)] * 3
