"""What mechanisms have in common beyond their contract: refusals, dropout, pieces, gradients of other parameters."""

import pytest
import torch
from naive import (
    CROSS,
    SELF,
    assert_chunks_agree,
    assert_drops_weights,
    assert_gradients,
    assert_recomputed_alike,
    draw,
    make,
    spec_of,
)
from patterns import assert_slices_agree

from informer.build import build_attention
from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.parameters import MOST, at_least, choice, flag, positive

WIDE, LONG = (2, 3, 67, 67, 3, 2), (1, 1, 263, 263, 3, 2)
"""Sizes b, h, l, s, e, d; of the longer one, distances of log_sparse are gathered, not taken from the band."""
BOTH = (False, True)


WHOLE_0, WHOLE_1 = (f"expected a whole number of at least {n}" for n in (0, 1))
REFUSED = [
    ("linear", {"feature_map": "gelu"}, "feature_map: expected one of elu, relu, exp, softmax, found 'gelu'"),
    *(("hard", {"temperature": x}, "temperature: expected") for x in (0.0, 1e-38, float("nan"), float("inf"))),
    *(("full", {"scale": x}, "scale: expected a finite number above 0") for x in (0.0, -1.0, float("nan"))),
    *(("topk", {"k": k}, f"k: {WHOLE_1}") for k in (0, -1, True)),
    *((name, {"window": -1}, f"window: {WHOLE_0}, found -1") for name in ("log_sparse", "truncated")),
    *(("etc", {key: -1}, f"{key}: {WHOLE_0}, found -1") for key in ("radius", "n_global")),
    *(
        (name, {key: -1}, f"{key}: {WHOLE_0}, found -1")
        for name in ("bigbird", "bigbird_etc")
        for key in ("window", "n_global", "n_random", "seed")
    ),
    ("bigbird", {"global_positions": [5]}, r"global_positions: expected .* in a layer of 5 rows, found 5"),
    ("longformer", {"window": -1}, "window: expected"),
    ("longformer", {"dilation": 0}, "dilation: expected"),
    ("longformer", {"dilation": [1, 2, 3]}, "dilation: expected one number or one for each of 2 heads"),
    ("longformer", {"dilation": [1, 0]}, r"dilation\[1\]: expected"),
    ("longformer", {"n_global": -1}, "n_global: expected"),
    ("longformer", {"global_positions": [0, 5]}, "global_positions: expected whole numbers from -5 to 4 .* found 5"),
    ("longformer", {"global_positions": [-6]}, "global_positions: expected .* found -6"),
    ("sparse_fixed", {"pattern": "dense"}, "pattern: expected one of strided, fixed"),
    ("sparse_fixed", {"stride": 0}, "stride: expected"),
    ("sparse_fixed", {"c": 0}, "c: expected"),
    ("sparse_fixed", {"heads": "all"}, "heads: expected one of split, alternate, merge"),
    ("efficient", {"normaliser": "column"}, "normaliser: expected one of feature, row, found 'column'"),
    *(("linformer", {"proj_len": n}, "proj_len: expected") for n in (0, True)),
    ("synthesizer", {"kind": "vanilla"}, "kind: expected one of random, dense, found 'vanilla'"),
    ("pooled", {"ratio": 0}, "ratio: expected"),
    ("pooled", {"kind": "max"}, "kind: expected"),
    *(("pooled", {"pyramid": counts}, "pyramid: expected") for counts in ([], [0], [1, 0])),
    ("pooled", {"pyramid": [2], "kind": "conv"}, "pyramid: expected"),
    *(("em", params, next(iter(params))) for params in ({"n_bases": 0}, {"n_steps": 0}, {"momentum": 1.5})),
    *(("vq", params, next(iter(params))) for params in ({"n_codes": 0}, {"momentum": -0.1})),
    ("performer", {"n_features": 0}, "n_features"),
    ("performer", {"kind": "sin"}, "kind"),
    ("performer", {"radii": "unit"}, "radii"),
    ("performer", {"redraw_every": -1}, "redraw_every"),
    *(("reformer", {"n_buckets": n}, "n_buckets") for n in (0, 3)),
    ("reformer", {"n_hashes": 0}, "n_hashes"),
    ("reformer", {"seed": -1}, "seed"),
    ("prob", {"factor": 0}, f"factor: {WHOLE_1}, found 0"),
    ("prob", {"sample_factor": 0}, f"sample_factor: {WHOLE_1}, found 0"),
    ("prob", {"rounding": "floor"}, "rounding: expected one of ceil_ln, ln, found 'floor'"),
    ("prob", {"sampling": "random"}, "sampling: expected one of shared, per_query, all, lse, found 'random'"),
    ("prob", {"mean": "sum"}, "mean: expected one of sample, zero_fill, found 'sum'"),
    ("prob", {"context": "last"}, "context: expected one of mean, cumsum, found 'last'"),
    *(("auto", {key: 0}, key) for key in ("crossover", "factor")),
]


@pytest.mark.parametrize(("name", "params", "message"), REFUSED)
def test_parameters_out_of_range_are_refused(name, params, message):
    with pytest.raises(ValueError, match=message):
        build_attention(name, AttentionSpec(2, 3, 5, 5), **params)


@pytest.mark.parametrize(
    ("name", "params", "sizes", "scale"),
    [
        *((name, {}, SELF[2], 1.5) for name in ("full", "additive")),
        ("bilinear", {}, SELF[2], 0.5),
        ("topk", {"k": 8}, SELF[2], 1.5),
        ("synthesizer", {}, SELF[2], 1.5),
        ("synthesizer_dense", {}, SELF[2], 1.5),
        ("pooled", {}, SELF[2], 1.5),
        ("reformer", {"n_buckets": 4}, (1, 2, 97, 97, 5, 4), 1.5),
        ("log_sparse", {}, LONG, 1.5),
        ("longformer", {"window": 6, "n_global": 2}, (1, 2, 45, 45, 3, 3), 1.5),
        ("bigbird", {"window": 6}, (1, 2, 45, 45, 3, 3), 1.5),
        *(("truncated", {"window": window}, (1, 2, 45, 45, 3, 3), 1.5) for window in (3, 40)),
        *((f"sparse_{kind}", {"heads": "merge"}, (1, 2, 45, 45, 3, 3), 1.5) for kind in ("strided", "fixed")),
    ],
)
def test_dropout_acts_on_the_weights(name, params, sizes, scale):
    q, k, _ = draw(sizes, scale=scale)
    assert_drops_weights(make(name, params, sizes, dropout=0.4), q, k)


@pytest.mark.parametrize(
    ("name", "params", "sizes", "causal"),
    [
        *(("log_sparse", {"window": 3}, LONG, causal) for causal in BOTH),
        *(("truncated", {"window": 4}, (2, 3, 97, 97, 3, 2), causal) for causal in BOTH),
        *(("longformer", {"window": 6, "dilation": [2, 1, 2], "n_global": 3}, WIDE, causal) for causal in BOTH),
        *(("bigbird", {"window": 6, "n_global": 3, "n_random": 4}, (2, 3, 41, 41, 3, 2), causal) for causal in BOTH),
        ("bigbird_etc", {"window": 6}, (2, 3, 41, 41, 3, 2), False),
        ("etc", {"radius": 3}, WIDE, False),
        *(
            (f"sparse_{kind}", {"heads": heads}, WIDE, causal)
            for kind in ("strided", "fixed")
            for heads in ("split", "merge")
            for causal in BOTH
        ),
    ],
)
def test_slices_agree(monkeypatch, name, params, sizes, causal):
    assert_slices_agree(monkeypatch, make(name, params, sizes, causal=causal), *draw(sizes))


@pytest.mark.parametrize(
    ("name", "sizes", "causal"),
    [
        *((name, SELF[0], causal) for name in ("additive", "full", "hard", "relu") for causal in BOTH),
        *((name, SELF[2], causal) for name in ("synthesizer", "topk") for causal in BOTH),
        ("bilinear", CROSS[1], False),  # values wider than keys: no fused kernel
    ],
)
def test_chunks_change_nothing(monkeypatch, name, sizes, causal):
    params = {"k": 3} if name == "topk" else {}
    assert_chunks_agree(monkeypatch, make(name, params, sizes, causal=causal), *draw(sizes))


@pytest.mark.parametrize(
    ("name", "facts", "scale"),
    [
        ("full", {"dropout": 0.5}, 1.5),
        ("hard", {"causal": True}, 0.3),  # noise
        *(("prob", {"dropout": 0.5, "causal": causal}, 1.5) for causal in BOTH),
        ("synthesizer", {"dropout": 0.5}, 1.5),
    ],
)
def test_chunks_draw_the_same_when_recomputed(monkeypatch, name, facts, scale):
    attn = make(name, {}, SELF[2], **facts).train()
    assert_recomputed_alike(monkeypatch, attn, *draw(SELF[2], scale=scale))


@pytest.mark.parametrize(
    ("name", "params", "causal"),
    [
        *(("linear", {"feature_map": kind}, causal) for kind in ("relu", "exp", "softmax") for causal in BOTH),
        ("efficient", {"normaliser": "row"}, True),
        ("linformer", {"proj_len": 2, "share_kv": True}, False),
        ("pooled", {"ratio": 3, "kind": "conv"}, False),
        ("pooled", {"pyramid": [1, 2, 3]}, False),
        ("etc", {"radius": 1, "n_global": 2}, False),
        ("bigbird_etc", {"window": 2, "n_random": 1}, False),
        *(("prob", {"context": "cumsum"}, causal) for causal in BOTH),
        *(("reformer", {"n_buckets": 4}, causal) for causal in BOTH),
    ],
)
def test_gradients(name, params, causal):
    """Of parameters other than the defaults, whose gradients the contract checks."""
    sizes = (1, 2, 7, 7, 3, 2)
    assert_gradients(make(name, params, sizes, causal=causal), *draw(sizes))


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *((name, {}) for name in ("additive", "linformer", "synthesizer", "synthesizer_dense")),
        *(("pooled", params) for params in ({"ratio": 3}, {"ratio": 3, "kind": "conv"}, {"pyramid": [1, 2, 3]})),
    ],
)
def test_takes_the_type_of_its_inputs(name, params):
    """With parameters in single precision, as under autocast."""
    attn = build_attention(name, spec_of(SELF[2]), **params)
    q, k, v = (x.bfloat16().requires_grad_() for x in draw(SELF[2]))
    out = attn(q, k, v)
    assert out.dtype == torch.bfloat16
    gradients = torch.autograd.grad(out.sum(), [q, k, v], allow_unused=True)
    assert all(x.isfinite().all() for x in (out, *gradients) if x is not None)


@pytest.mark.parametrize(
    ("name", "params", "drawn"), [("bigbird", {}, "random_keys"), ("reformer", {"n_buckets": 4}, "rotations")]
)
def test_what_is_drawn_depends_on_seed_and_layer_alone(name, params, drawn):
    """Red if it is drawn from the global generator."""

    def draw_of(seed, layer):
        torch.rand(1)
        spec = AttentionSpec(2, 4, 60, 60, layer_index=layer)
        return getattr(build_attention(name, spec, seed=seed, **params), drawn)

    assert torch.equal(draw_of(3, 1), draw_of(3, 1))
    assert not torch.equal(draw_of(3, 1), draw_of(4, 1))
    assert not torch.equal(draw_of(3, 1), draw_of(3, 2))
    assert not torch.equal(draw_of(3, 1)[0], draw_of(3, 1)[1])


@pytest.mark.parametrize("found", [(7, 7), (7, 5), (5, 7)])
@pytest.mark.parametrize("name", ["longformer", "bigbird", "bigbird_etc", "linformer", "synthesizer"])
def test_another_length_than_it_was_built_for_is_refused(name, found):
    params = {"n_global": 2} if name == "longformer" else {}
    with pytest.raises(ValueError, match="expected 5 queries and 5 keys, .* found {} and {}".format(*found)):
        build_attention(name, AttentionSpec(3, 5, 5, 5), **params)(*draw((2, 3, *found, 5, 4)))


@pytest.mark.parametrize(
    ("check", "values", "expected"),
    [
        (lambda x: at_least("n", x, 2), (1, 2.0, True, "4", None), "n: expected a whole number of at least 2"),
        (lambda x: at_least("n", x, 2), (10**20,), f"n: expected at most {MOST}"),  # what torch cannot take
        (
            lambda x: positive("x", x, minimum=0.5),
            (0.5, float("inf"), float("nan"), True, "3", None),
            "x: expected a finite number above 0.5",
        ),
        (lambda x: choice("kind", x, ("a", "b")), ("c", 1, None), "kind: expected one of a, b"),
        (lambda x: flag("on", x), (1, "true", None), "on: expected true or false"),
    ],
)
def test_a_value_of_another_kind_is_refused(check, values, expected):
    for value in values:
        with pytest.raises(ValueError, match=f"{expected}, found {value!r}"):
            check(value)


def test_good_values_pass_through():
    assert (at_least("n", 2, 2), choice("kind", "b", ("a", "b")), flag("on", False)) == (2, "b", False)
    assert positive("x", 3) == 3.0
