"""Big Bird attention against a loop over pairs, and its draw of random keys."""

import pytest
import torch
from naive import assert_realises, draw, spec_of
from patterns import SIZES, assert_pattern
from test_etc import summary_matrix
from test_longformer import spread

from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.bigbird import BigBirdAttention, BigBirdETC

PARAMS = [
    {"window": 0, "n_global": 0, "n_random": 1},
    {"window": 5, "n_global": 2, "n_random": 3},
    {"window": 16, "n_global": 1, "n_random": 0},
    {"window": 4, "n_global": 3, "n_random": 200},
    {"window": 10**12, "n_global": 2, "n_random": 4},
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("sizes", SIZES)
def test_equals_the_formula(sizes, params, causal):
    made = BigBirdAttention(spec_of(sizes, causal=causal), **params)
    random_keys = made.random_keys.tolist()
    positions = spread(sizes[2], params["n_global"])

    def pair(head, i, j):
        seen = abs(i - j) <= params["window"] // 2 or j in random_keys[head][i]
        return seen or i in positions or j in positions

    assert_pattern(lambda _: made, sizes, pair, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
def test_named_globals_equal_the_formula(causal):
    """Red if the named positions do not replace the spaced ones, or random keys fall on them."""
    sizes, positions = SIZES[-1], {2, 95}
    made = BigBirdAttention(spec_of(sizes, causal=causal), window=4, global_positions=[2, -2], n_random=60)
    random_keys = made.random_keys.tolist()
    assert all(positions.isdisjoint(row) for head in random_keys for row in head)

    def pair(head, i, j):
        return abs(i - j) <= 2 or j in random_keys[head][i] or i in positions or j in positions

    assert_pattern(lambda _: made, sizes, pair, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("window", "n_global", "n_random"), [(4, 3, 5), (1, 0, 2), (30, 1, 40), (6, 2, 500)])
def test_random_keys_are_distinct_and_new_to_the_row(window, n_global, n_random, causal):
    length, reach = 37, window // 2
    spec = AttentionSpec(3, 2, length, length, causal)
    drawn = BigBirdAttention(spec, window=window, n_global=n_global, n_random=n_random).random_keys
    positions = spread(length, n_global)
    for rows in drawn.tolist():
        for i, row in enumerate(rows):
            free = {j for j in range(i + 1 if causal else length) if abs(i - j) > reach} - positions
            keys = [j for j in row if j != -1]
            assert len(set(keys)) == len(keys) == min(n_random, len(free))
            assert set(keys) <= free


def test_every_free_key_is_equally_likely():
    # 4000 heads draw 3 of the keys that row 9 of 15 may draw; 6 standard deviations of a share are allowed.
    spec = AttentionSpec(4000, 1, 15, 15)
    drawn = BigBirdAttention(spec, window=4, n_global=2, n_random=3).random_keys[:, 9].flatten()
    free = [j for j in range(1, 14) if abs(j - 9) > 2]
    share = torch.bincount(drawn, minlength=15)[free] / 4000
    expected = 3 / len(free)
    assert (share - expected).abs().max() < 6 * (expected * (1 - expected) / 4000) ** 0.5


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("sizes", SIZES)
def test_etc_form_equals_the_formula(sizes, params):
    q, k, v = draw(sizes)
    torch.manual_seed(0)
    attn = BigBirdETC(spec_of(sizes), **params).double().eval()
    random_keys = attn.random_keys.tolist()

    def local(head, i, j):
        return abs(i - j) <= params["window"] // 2 or j in random_keys[head][i]

    g = attn.summary.g if attn.summary is not None else q.new_empty(sizes[1], 0, sizes[4])
    assert_realises(attn, q, k, v, summary_matrix(q, k, g.detach(), local))
