"""Longformer attention against a loop over pairs."""

from dataclasses import replace

import pytest
from patterns import SIZES, assert_pattern

from informer.networks.attention.global_positions import evenly_spaced
from informer.networks.attention.longformer import LongformerAttention


def pair_of(window, dilations, positions):
    def pair(head, i, j):
        d, reach = dilations[head], window // 2
        near = abs(i - j) <= d * reach and (i - j) % d == 0
        return near or i in positions or j in positions

    return pair


def spread(length, count):
    """round(linspace(0, length - 1, count)) in whole numbers: Python's round takes halves to even."""
    return {0} if count == 1 else {round(n * (length - 1) / (count - 1)) for n in range(count)}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n_global", [0, 1, 3])
@pytest.mark.parametrize(("window", "dilation"), [(5, 1), (0, 2), (8, 3), (32, 1), (10**12, 1), (6, 10**12)])
@pytest.mark.parametrize("sizes", SIZES)
def test_equals_the_formula(sizes, window, dilation, n_global, causal):
    assert_pattern(
        lambda spec: LongformerAttention(spec, window=window, dilation=dilation, n_global=n_global),
        sizes,
        pair_of(window, [dilation] * sizes[1], spread(sizes[2], n_global)),
        causal=causal,
    )


@pytest.mark.parametrize(("layer", "window"), [(0, 3), (1, 6), (2, 11), (5, 11)])
def test_each_layer_has_its_window(layer, window):
    """Red if a layer has the window of another, or a layer after the last has none."""
    sizes = (1, 2, 40, 40, 4, 3)
    assert_pattern(
        lambda spec: LongformerAttention(replace(spec, layer_index=layer), window=[3, 6, 11]),
        sizes,
        pair_of(window, [1, 1], set()),
        causal=False,
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n_global", [0, 2])
@pytest.mark.parametrize("dilation", [[3, 1, 3], [4, 2, 1]])
def test_each_head_has_its_dilation(dilation, n_global, causal):
    sizes = (2, 3, 53, 53, 4, 3)
    assert_pattern(
        lambda spec: LongformerAttention(spec, window=7, dilation=dilation, n_global=n_global),
        sizes,
        pair_of(7, dilation, spread(53, n_global)),
        causal=causal,
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("given", "expected"), [([0, -1], {0, 96}), ([-3, 5, 94, 5], {5, 94}), ([], set()), ([-97, 96, 40], {0, 40, 96})]
)
def test_named_globals_equal_the_formula(given, expected, causal):
    """Red if a position from the end is off by one, or a position named twice counts twice."""
    assert_pattern(
        lambda spec: LongformerAttention(spec, window=6, n_global=3, global_positions=given),
        SIZES[-1],
        pair_of(6, [1] * 3, expected),
        causal=causal,
    )


@pytest.mark.parametrize(
    ("length", "count", "expected"), [(6, 3, [0, 2, 5]), (8, 3, [0, 4, 7]), (9, 1, [0]), (3, 7, [0, 1, 2]), (5, 0, [])]
)
def test_globals_are_evenly_spaced_halves_to_even(length, count, expected):
    assert evenly_spaced(length, count).tolist() == expected
