"""Pooled attention against a loop that averages the keys of each run by hand."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from naive import CROSS, SELF, assert_realises, draw, softmax, spec_of

from informer.networks.attention.pooled import PooledAttention


def make(sizes, *, causal=False, dropout=0.0, **params):
    attn = PooledAttention(spec_of(sizes, causal=causal, dropout=dropout), **params).double().eval()
    if attn.kernel is not None:
        torch.manual_seed(1)
        torch.nn.init.normal_(attn.kernel)
    return attn


def runs(n_keys, ratio):
    """One dict {key: share} a run."""
    keys = list(range(n_keys))
    parts = [keys[i : i + ratio] for i in range(0, n_keys, ratio)]
    return [{j: 1 / len(part) for j in part} for part in parts]


def convolution(n_keys, kernel):
    ratio = len(kernel)
    return [{j: kernel[j - i] for j in range(i, min(i + ratio, n_keys))} for i in range(0, n_keys, ratio)]


def bins(n_keys, counts):
    parts = [range(math.floor(r * n_keys / n), math.ceil((r + 1) * n_keys / n)) for n in counts for r in range(n)]
    return [{j: 1 / len(part) for j in part} for part in parts]


def loop(q, k, rows_of_head):
    b, h, n_queries, e = q.shape
    result = np.zeros((b, h, n_queries, k.shape[2]))
    for item, head, i in np.ndindex(b, h, n_queries):
        rows, keys = rows_of_head(head), k[item, head].numpy()
        pooled = np.array([sum(share * keys[j] for j, share in row.items()) for row in rows])
        for weight, row in zip(softmax(pooled @ q[item, head, i].numpy() / np.sqrt(e)), rows, strict=True):
            for j, share in row.items():
                result[item, head, i, j] += weight * share
    return torch.from_numpy(result)


def check(attn, sizes, rows_of_head):
    q, k, v = draw(sizes)
    assert_realises(attn, q, k, v, loop(q, k, rows_of_head))


@pytest.mark.parametrize("ratio", [1, 2, 4, 40])
@pytest.mark.parametrize("sizes", SELF + CROSS)
def test_averages_runs(sizes, ratio):
    check(make(sizes, ratio=ratio), sizes, lambda _: runs(sizes[3], ratio))


@pytest.mark.parametrize("ratio", [1, 3, 40])
@pytest.mark.parametrize("sizes", SELF + CROSS)
def test_convolves_with_one_kernel_a_head(sizes, ratio):
    attn = make(sizes, ratio=ratio, kind="conv")
    kernel = attn.kernel.detach().numpy()
    check(attn, sizes, lambda head: convolution(sizes[3], kernel[head]))


@pytest.mark.parametrize("pyramid", [[1], [1, 3, 6, 8], [2, 40]])
@pytest.mark.parametrize("sizes", SELF + CROSS)
def test_stacks_adaptive_averages(sizes, pyramid):
    check(make(sizes, pyramid=pyramid), sizes, lambda _: bins(sizes[3], pyramid))


def test_convolution_starts_as_the_average():
    sizes = (1, 2, 5, 12, 4, 4)
    spec, operands = spec_of(sizes), draw(sizes)
    conv = PooledAttention(spec, ratio=4, kind="conv").double()
    torch.testing.assert_close(conv(*operands), PooledAttention(spec, ratio=4)(*operands))


@pytest.mark.parametrize("kind", ["avg", "conv"])
def test_a_run_longer_than_all_keys_costs_no_more_than_they_do(kind, monkeypatch):
    """Red if keys are filled up to a ratio far above their number."""
    largest = []
    pad = F.pad
    monkeypatch.setattr(F, "pad", lambda x, *rest: (largest.append(pad(x, *rest).numel()), pad(x, *rest))[1])
    q, k, v = draw(SELF[0])
    attn = make(SELF[0], ratio=1000, kind=kind)
    torch.testing.assert_close(attn(q, k, v), attn.weights(q, k) @ v, rtol=1e-11, atol=1e-11)
    assert max(largest, default=0) <= k.numel()
