"""What mechanisms do beyond their formulas and the contract: refusals, dropout, draws, averages, gradients of their
own, and numbers that would overflow, vanish or cancel."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from formulas import softmax
from mechanisms import assert_gradients, drawn, made, matrix
from scipy import stats
from torch import Tensor

from informer.checkpoint.network import attention_names, build_attention
from informer.networks.attention.auto import AutoAttention
from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.bigbird import BigBirdAttention
from informer.networks.attention.full import FullAttention
from informer.networks.attention.global_local import GlobalLocalAttention
from informer.networks.attention.kernels import running_sums
from informer.networks.attention.parameters import MOST, at_least, choice, flag, positive
from informer.networks.attention.performer import chi_quantiles, random_directions
from informer.networks.attention.prob import ProbAttention
from informer.networks.attention.running_sums import ordered_sum
from informer.networks.ops import fast
from informer.networks.ops.recompute import over_pieces

PARITY = Path(__file__).parents[1] / "parity"
N7, N31, N131 = (7, 7), (31, 31), (131, 131)
WHOLE_0, WHOLE_1 = (f"expected a whole number of at least {n}" for n in (0, 1))
REFUSED = [
    ("linear", {"feature_map": "gelu"}, "feature_map: expected one of elu, relu, exp, softmax, found 'gelu'"),
    *(("hard", {"temperature": x}, "temperature: expected") for x in (0.0, 1e-38, float("nan"), float("inf"))),
    *(("full", {"scale": x}, "scale: expected a finite number above 0") for x in (0.0, -1.0, float("nan"))),
    *(("topk", {"k": k}, f"k: {WHOLE_1}") for k in (0, -1, True)),
    *((name, {"window": -1}, f"window: {WHOLE_0}, found -1") for name in ("log_sparse", "truncated", "longformer")),
    *(("etc", {key: -1}, f"{key}: {WHOLE_0}, found -1") for key in ("radius", "n_global")),
    *(
        (name, {key: -1}, f"{key}: {WHOLE_0}, found -1")
        for name in ("bigbird", "bigbird_etc")
        for key in ("window", "n_global", "n_random", "seed")
    ),
    ("bigbird", {"global_positions": [5]}, r"global_positions: expected .* in a layer of 5 rows, found 5"),
    ("longformer", {"dilation": 0}, "dilation: expected"),
    ("longformer", {"dilation": [1, 2, 3]}, "dilation: expected one number or one for each of 2 heads"),
    ("longformer", {"dilation": [1, 0]}, r"dilation\[1\]: expected"),
    ("longformer", {"n_global": -1}, "n_global: expected"),
    ("longformer", {"global_positions": [0, 5]}, "global_positions: expected whole numbers from -5 to 4 .* found 5"),
    ("longformer", {"global_positions": [-6]}, "global_positions: expected .* found -6"),
    ("sparse_fixed", {"pattern": "dense"}, "pattern: expected one of strided, fixed"),
    *(("sparse_fixed", {key: 0}, f"{key}: expected") for key in ("stride", "c")),
    ("sparse_fixed", {"heads": "all"}, "heads: expected one of split, alternate, merge"),
    ("efficient", {"normaliser": "column"}, "normaliser: expected one of feature, row, found 'column'"),
    *(("linformer", {"proj_len": n}, "proj_len: expected") for n in (0, True)),
    ("synthesizer", {"kind": "vanilla"}, "kind: expected one of random, dense, found 'vanilla'"),
    *(("pooled", params, "expected") for params in ({"ratio": 0}, {"kind": "max"}, {"pyramid": [2], "kind": "conv"})),
    *(("pooled", {"pyramid": counts}, "pyramid: expected") for counts in ([], [0], [1, 0])),
    *(("em", params, next(iter(params))) for params in ({"n_bases": 0}, {"n_steps": 0}, {"momentum": 1.5})),
    ("autocorrelation", {"factor": 0}, "factor: expected a finite number above 0"),
    *(("fourier", {key: -1}, key) for key in ("n_modes", "seed")),
    *(("vq", params, next(iter(params))) for params in ({"n_codes": 0}, {"momentum": -0.1})),
    *(("performer", params, next(iter(params))) for params in ({"n_features": 0}, {"kind": "sin"}, {"radii": "unit"})),
    ("performer", {"redraw_every": -1}, "redraw_every"),
    *(("reformer", params, next(iter(params))) for params in ({"n_buckets": 0}, {"n_buckets": 3}, {"n_hashes": 0})),
    ("reformer", {"seed": -1}, "seed"),
    *(("prob", {key: 0}, f"{key}: {WHOLE_1}, found 0") for key in ("factor", "sample_factor")),
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


# dropout and draws


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *((name, {}) for name in ("full", "additive", "bilinear", "topk", "synthesizer", "synthesizer_dense")),
        *((name, {}) for name in ("pooled", "truncated", "log_sparse")),
        ("reformer", {"n_buckets": 4}),
        *((name, {"window": 6, "n_global": 2}) for name in ("longformer", "bigbird")),
        *((f"sparse_{kind}", {"heads": "merge"}) for kind in ("strided", "fixed")),
    ],
)  # fmt: skip
def test_dropout_acts_on_the_weights(name, params):
    """One-hot values read the weights: each is 0 or divided by 1 - p, and both happen."""
    q, k, _ = drawn((45, 45), e=3, scale=0.5)
    attn = made(name, params, (45, 45), e=3, dropout=0.4)
    dropped, kept = attn.train()(q, k, torch.eye(45, dtype=q.dtype).expand(1, 2, -1, -1)), attn.weights(q, k) / 0.6
    if name == "pooled":  # a weight of a run of keys
        dropped, kept = dropped[..., ::4], kept[..., ::4]
    zero = dropped == 0
    torch.testing.assert_close(dropped, torch.where(zero, 0, kept), rtol=1e-11, atol=1e-11)
    assert 0.1 < zero[kept > 0].double().mean() < 0.9


@pytest.mark.parametrize("name", [name for name in attention_names() if name not in ("relu",)])
def test_the_backward_pass_draws_what_the_forward_pass_drew(name):
    """Outputs are linear in the values, so sum(gradient * values) is their sum. Red if a piece that is computed again
    has another mask, noise or mode."""
    attn, (q, k, v) = made(name, {}, N31, dropout=0.4).train(), drawn(N31)
    v.requires_grad_()
    with fast.forms(whole=1, cached=1):
        out = attn(q, k, v)
    attn.eval()
    torch.rand(1)
    (gradient,) = torch.autograd.grad(out.sum(), v)
    torch.testing.assert_close((gradient * v).sum(), out.sum())


def test_pieces_leave_the_random_stream_alone_and_keep_only_their_operands():
    q, k = (torch.randn(2, 1, 5, 3, requires_grad=True) for _ in "qk")
    kept: list[Tensor] = []

    def cut(q, k):
        return ((q[:, :, i : i + 2], k[:, :, : i + 2], i) for i in range(0, q.shape[2], 2))

    def noisy(rows, keys, start):
        return ((rows @ keys.mT).softmax(-1) * torch.rand(rows.shape[2], keys.shape[2])) @ keys

    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        out = over_pieces(noisy, cut, q, k)
    assert [x.data_ptr() for x in kept] == [q.data_ptr(), k.data_ptr()]
    torch.manual_seed(3)
    out.sum().backward()
    after = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(after, torch.rand(1))


@pytest.mark.parametrize(
    ("name", "params", "drawn_as"),
    [
        ("bigbird", {}, "random_keys"),
        ("reformer", {"n_buckets": 4}, "rotations"),
        ("fourier", {"n_modes": 9}, "modes_q"),
    ],
)
def test_what_is_drawn_depends_on_seed_and_layer_alone(name, params, drawn_as):
    """Red if it is drawn from the global generator."""

    def draw_of(seed, layer):
        torch.rand(1)
        return getattr(
            build_attention(name, AttentionSpec(2, 4, 60, 60, layer_index=layer), seed=seed, **params), drawn_as
        )

    first = draw_of(3, 1)
    assert torch.equal(first, draw_of(3, 1))
    assert not torch.equal(first, draw_of(4, 1))
    assert not torch.equal(first, draw_of(3, 2))
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("window", "n_global", "n_random"), [(4, 3, 5), (1, 0, 2), (30, 1, 40), (6, 2, 500)])
def test_random_keys_of_big_bird_are_distinct_and_new_to_the_row(window, n_global, n_random, causal):
    spec = AttentionSpec(3, 2, 37, 37, causal)
    keys_of = BigBirdAttention(spec, window=window, n_global=n_global, n_random=n_random).random_keys.tolist()
    places = {0} if n_global == 1 else {round(n * 36 / (n_global - 1)) for n in range(n_global)}
    for rows in keys_of:
        for i, row in enumerate(rows):
            free = {j for j in range(i + 1 if causal else 37) if abs(i - j) > window // 2} - places
            keys = [j for j in row if j != -1]
            assert len(set(keys)) == len(keys) == min(n_random, len(free))
            assert set(keys) <= free


def test_every_free_key_of_big_bird_is_equally_likely():
    """4000 heads draw 3 of the keys that row 9 of 15 may draw; 6 standard deviations of a share are allowed."""
    attn = BigBirdAttention(AttentionSpec(4000, 1, 15, 15), window=4, n_global=2, n_random=3)
    free = [j for j in range(1, 14) if abs(j - 9) > 2]
    share = torch.bincount(attn.random_keys[:, 9].flatten(), minlength=15)[free] / 4000
    expected = 3 / len(free)
    assert (share - expected).abs().max() < 6 * (expected * (1 - expected) / 4000) ** 0.5


# gradients that the contract does not check


@pytest.mark.parametrize(
    ("name", "params", "causal"),
    [
        *(("linear", {"feature_map": kind}, causal) for kind in ("relu", "exp", "softmax") for causal in (False, True)),
        ("efficient", {"normaliser": "row"}, True),
        ("linformer", {"proj_len": 2, "share_kv": True}, False),
        ("pooled", {"ratio": 3, "kind": "conv"}, False),
        ("pooled", {"pyramid": [1, 2, 3]}, False),
        ("etc", {"radius": 1, "n_global": 2}, False),
        ("bigbird_etc", {"window": 2, "n_random": 1}, False),
        *(("prob", {"context": "cumsum"}, causal) for causal in (False, True)),
        *(("reformer", {"n_buckets": 4}, causal) for causal in (False, True)),
    ],
)
def test_gradients_of_other_parameters_than_the_defaults(name, params, causal):
    assert_gradients(made(name, params, N7, e=3, causal=causal), *drawn(N7, e=3, d=2))


def test_gradients_of_large_keys_of_efficient():
    q, k, v = drawn((5, 5), e=3, d=2)
    assert_gradients(made("efficient", {}, (5, 5), e=3, causal=True), q, k * 100, v)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *((name, {}) for name in ("additive", "linformer", "synthesizer", "synthesizer_dense")),
        *(("pooled", params) for params in ({"ratio": 3}, {"ratio": 3, "kind": "conv"}, {"pyramid": [1, 2, 3]})),
    ],
)
def test_takes_the_type_of_its_inputs(name, params):
    """With parameters in single precision, as under autocast."""
    attn = build_attention(name, AttentionSpec(2, 5, *N31), **params)
    q, k, v = (x.bfloat16().requires_grad_() for x in drawn(N31))
    out = attn(q, k, v)
    assert out.dtype == torch.bfloat16
    gradients = torch.autograd.grad(out.sum(), [q, k, v], allow_unused=True)
    assert all(x.isfinite().all() for x in (out, *gradients) if x is not None)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_the_gradient_of_hard_passes_straight_through_the_softmax(temperature, causal):
    attn, (q, k, v) = made("hard", {"temperature": temperature}, N7, causal=causal), drawn(N7)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    upstream = torch.linspace(-1, 2, v.numel(), dtype=v.dtype).view(v.shape)
    found = torch.autograd.grad((attn(q, k, v) * upstream).sum(), [q, k, v])
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), float("-inf"))
    soft = (scores / temperature).softmax(-1)
    expected = torch.autograd.grad((soft * (upstream @ v.detach().mT)).sum(), [q, k])
    torch.testing.assert_close(found, (*expected, attn.weights(q, k).mT @ upstream))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("lengths", "sizes", "n_codes"), [(N131, (5, 4), 200), (N131, (5, 4), 7), (N7, (1, 1), 1)])
def test_the_gradient_of_vq_passes_straight_through_its_codes(lengths, sizes, n_codes, causal):
    """Against the dense softmax with k + (code - k) as keys. Red if either way of summing it leaves a pair out."""
    e, d = sizes
    attn = made("vq", {"n_codes": n_codes}, lengths, e=e, causal=causal)
    q, k, v = (x.requires_grad_() for x in drawn(lengths, e=e, d=d))
    upstream = torch.randn(*q.shape[:3], d, dtype=v.dtype)
    found = torch.autograd.grad((attn(q, k, v) * upstream).sum(), [q, k, v])
    nearest = ((k[:, :, :, None] - attn.codes[:, None]) ** 2).sum(-1).argmin(-1)
    codes = torch.stack([attn.codes[head][nearest[0, head]] for head in range(2)])[None]
    out = FullAttention(attn.spec)(q, k + (codes - k).detach(), v)
    for a, b in zip(found, torch.autograd.grad((out * upstream).sum(), [q, k, v]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


# averages that training keeps


def test_training_moves_the_bases_of_em_towards_the_mean_of_the_batch():
    """Red if the mean is over heads too, the share is the other one, or eval moves them."""
    attn, (q, k, v) = made("em", {"n_bases": 4, "momentum": 0.75}, N7), drawn(N7, b=3)
    before, last = attn.bases.clone(), np.zeros((3, 2, 4, 5))
    for b, h in np.ndindex(3, 2):
        bases, keys = attn.bases[h].numpy(), k[b, h].numpy()
        for _ in range(attn.n_steps):
            shares = softmax(keys @ bases.T, axis=1)
            bases = (shares / shares.sum(0)).T @ keys
            bases = bases / np.linalg.norm(bases, axis=1, keepdims=True)
        last[b, h] = bases
    expected = attn(q, k, v)
    assert torch.equal(attn.bases, before)
    torch.testing.assert_close(attn.train()(q, k, v), expected)
    torch.testing.assert_close(
        attn.bases, 0.75 * before + 0.25 * torch.from_numpy(last.mean(0)), rtol=1e-11, atol=1e-11
    )


def test_training_moves_the_codes_of_vq_by_their_averages():
    """Two batches, each code's average count and sum by a loop. Red if unused codes move."""
    attn = made("vq", {"n_codes": 40, "momentum": 0.75}, N31).train()
    counts, sums = np.ones((2, 40)), attn.codes.numpy().copy()
    for seed in (0, 1):
        q, k, v = drawn(N31, b=2, seed=seed)
        nearest, before = ((k[:, :, :, None] - attn.codes[:, None]) ** 2).sum(-1).argmin(-1), attn.codes.clone()
        attn(q, k, v)
        counts, sums = 0.75 * counts, 0.75 * sums
        for b, h, j in np.ndindex(*nearest.shape):
            counts[h, nearest[b, h, j]] += 0.25
            sums[h, nearest[b, h, j]] += 0.25 * k[b, h, j].numpy()
        torch.testing.assert_close(attn.counts, torch.from_numpy(counts), rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(attn.codes, torch.from_numpy(sums / counts[..., None]), rtol=1e-11, atol=1e-11)
        for h in range(2):
            unused = sorted(set(range(40)) - set(nearest[:, h].flatten().tolist()))
            assert torch.equal(attn.codes[h, unused], before[h, unused])


@pytest.mark.parametrize(("name", "buffer"), [("em", "bases"), ("vq", "codes")])
def test_a_momentum_of_one_keeps_what_was_drawn(name, buffer):
    attn = made(name, {"momentum": 1.0}, N7)
    before = getattr(attn, buffer).clone()
    attn.train()(*drawn(N7))
    assert torch.equal(getattr(attn, buffer), before)


def test_a_code_whose_count_has_vanished_comes_back():
    attn = made("vq", {"n_codes": 2}, N7)
    attn.counts = torch.zeros_like(attn.counts)
    attn.train()(*drawn(N7))
    assert attn.codes.isfinite().all()


@pytest.mark.parametrize(("name", "params"), [("em", {}), ("vq", {}), ("performer", {"redraw_every": 1})])
def test_a_pending_backward_pass_keeps_the_buffers_of_its_forward_pass(name, params):
    """Red if a buffer is written in place."""
    (q, k, v), gradients = drawn(N7), []
    for again in (False, True):
        attn, leaf = made(name, params, N7).train(), q.clone().requires_grad_()
        with fast.forms(whole=1, cached=1):
            out = attn(leaf, k, v)
            if again:
                attn(q, k, v)
        gradients.append(torch.autograd.grad(out.square().sum(), leaf)[0])
    assert torch.equal(*gradients)


# large, small and equal numbers


def test_large_inputs_of_additive_stay_exact():
    q, k, v = (x.float() for x in drawn(N31, scale=1e3))
    attn = made("additive", {}, N31)
    expected = attn.weights(q.double(), k.double()) @ v.double()
    torch.testing.assert_close(attn.float()(q, k, v).double(), expected, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["linear", "relu", "taylor"])
def test_a_row_without_weight_takes_the_mean_of_its_allowed_values(name, dtype, causal):
    """Features that vanish, unit vectors opposite to all keys; rows of relu, which has an epsilon, are zero."""
    attn, (q, k, v) = made(name, {}, (9, 9), causal=causal), (x.to(dtype) for x in drawn((9, 9)))
    q[:, :, 6] = q[:, :, 6].abs() + (1000 if name == "linear" else 0.1)
    if name == "linear":
        q[:, :, 6] *= -1
    else:
        k = -q[:, :, 6:7] * torch.arange(1, 10, dtype=dtype)[:, None] / 3
    mean = v[:, :, :7].mean(dim=2) if causal else v.mean(dim=2)
    expected = torch.zeros_like(mean) if name == "relu" else mean
    torch.testing.assert_close(attn(q, k, v)[:, :, 6], expected)
    torch.testing.assert_close((attn.weights(q, k) @ v)[:, :, 6], expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shift", [-900.0, 900.0])
def test_exponentials_of_large_elements_keep_their_digits(shift, causal):
    """A shift of all elements of all keys cancels with f = exp: red without a unit for the keys."""
    attn, (q, k, v) = made("linear", {"feature_map": "exp"}, N131, causal=causal), drawn(N131)
    torch.testing.assert_close(attn(q + shift, k + shift, v), attn(q, k, v), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(attn.weights(q + shift, k + shift), attn.weights(q, k), rtol=1e-9, atol=1e-9)


def test_rows_of_very_negative_elements_keep_their_digits():
    attn, (q, k, v) = made("linear", {}, (3, 3), causal=True), drawn((3, 3))
    q, k = q - 75, k - 55  # products near e^-130, which float32 cannot hold
    operands = [x.float().requires_grad_() for x in (q, k, v)]
    out = attn(*operands)
    torch.testing.assert_close(out.double(), matrix("linear", attn, {}, q, k) @ v, rtol=1e-4, atol=1e-4)
    out.sum().backward()
    assert all(x.grad.isfinite().all() for x in operands)


@pytest.mark.parametrize("name", ["linear", "taylor", "efficient", "performer"])
def test_half_precision_sums_in_single(name):
    attn, (q, k, v) = made(name, {}, (1000, 1000), causal=True).float(), drawn((1000, 1000), scale=0.3)
    q, k, v = (x.bfloat16() for x in (q, k, v))
    out = attn(q, k, v)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), attn(q.float(), k.float(), v.float()), rtol=2**-8, atol=2**-8)


def test_zero_vectors_have_no_direction():
    attn, operands = made("taylor", {}, (5, 5)), drawn((5, 5))
    operands[0][:, :, 2], operands[1][:, :, 1] = 0, 0
    operands = [x.requires_grad_() for x in operands]
    attn(*operands).sum().backward()
    assert all(x.grad.isfinite().all() for x in operands)


@pytest.mark.parametrize("factor", [0.0, 1e4])
def test_keys_of_em_that_are_zero_or_far_away(factor):
    """Red where a base without keys is divided by its sum, or a base of length 0 by its length."""
    q, k, v = (x.float() for x in drawn((9, 9)))
    k = (k * factor).requires_grad_()
    out = made("em", {"n_bases": 20}, (9, 9)).float()(q, k, v)
    out.sum().backward()
    assert out.isfinite().all()
    assert k.grad.isfinite().all()


def test_the_first_of_equal_keys_wins_and_those_that_tie_with_the_last_stay():
    q, k = torch.ones(1, 1, 3, 2), torch.ones(1, 1, 9, 2)
    assert torch.equal(made("hard", {}, (3, 9), e=2, heads=1).weights(q, k).argmax(-1), torch.zeros(1, 1, 3).long())
    q, k = torch.ones(1, 1, 2, 1), torch.tensor([3.0, 1.0, 2.0, 2.0, 2.0, 0.0]).view(1, 1, 6, 1)
    kept = made("topk", {"k": 2}, (2, 6), e=1, heads=1).weights(q, k)[0, 0, 0] > 0
    assert kept.tolist() == [True, False, True, True, True, False]


def test_noise_of_hard_samples_the_softmax_in_training_and_only_if_asked():
    torch.manual_seed(0)
    k, many = torch.tensor([0.0, 1.0, 2.5]).view(1, 1, 3, 1), torch.ones(1, 1, 40_000, 1)
    noisy = made("hard", {}, (40_000, 3), e=1, heads=1).float()
    assert torch.equal(noisy(many, k, torch.eye(3)[None, None]).sum(2), torch.tensor([[[0.0, 0.0, 40_000.0]]]))
    chosen = noisy.train()(many, k, torch.eye(3)[None, None])
    torch.testing.assert_close(chosen.mean(2).flatten(), k.flatten().softmax(-1), rtol=0, atol=0.01)
    quiet, operands = made("hard", {"gumbel": False}, N31, dropout=0.9), drawn(N31)
    assert torch.equal(quiet.train()(*operands), quiet.eval()(*operands))


# sizes and starting values


@pytest.mark.parametrize("make", [AutoAttention, partial(build_attention, "auto")])
def test_the_measured_crossover_is_the_default_in_both_places(make):
    specs = [AttentionSpec(n_heads=1, d_head=2, len_q=length, len_k=length) for length in (255, 256)]
    assert [type(make(spec).chosen) for spec in specs] == [FullAttention, ProbAttention]


def test_bilinear_starts_as_full_attention_and_a_convolution_as_the_average():
    spec, operands = AttentionSpec(2, 5, 7, 12), drawn((7, 12))
    attn = build_attention("bilinear", spec).double()
    torch.testing.assert_close(attn(*operands), FullAttention(spec)(*operands), rtol=0, atol=1e-6)
    conv, average = (build_attention("pooled", spec, ratio=4, kind=kind).double() for kind in ("conv", "avg"))
    torch.testing.assert_close(conv(*operands), average(*operands))


def test_sizes_that_depend_on_the_length_or_width():
    def of(name, length, e=3, **params):
        return build_attention(name, AttentionSpec(3, e, length, length), **params)

    assert [of("reformer", n).n_buckets for n in (1, 64, 128, 720)] == [2, 2, 4, 22]
    assert [of("sparse_strided", n).stride for n in (1, 2, 31, 97)] == [1, 1, 6, 10]
    assert [of("performer", 3, e).n_features for e in (1, 2, 64)] == [1, 2, 267]
    assert [of("linformer", 7, proj_len=n).proj_k.shape for n in (64, 5)] == [(3, 7, 7), (3, 5, 7)]
    assert len([*of("linformer", 9, share_kv=True).parameters()]) == 1
    slots = of("linformer", 500, 8, proj_len=40).proj_k.detach() @ torch.randn(1, 3, 500, 8)
    assert slots.std().item() == pytest.approx(1, abs=0.1)  # a projected key is as large as a key


@pytest.mark.parametrize(
    ("length", "n_keys", "params", "counts"),
    [
        *((length, 7, {"factor": 5}, (count, 7)) for length, count in ((1, 1), (2, 2), (96, 25), (16384, 50))),
        (2, 7, {"factor": 1}, (1, 2)),
        # c ln L, rounded up once: 3 ln 96 = 13.7 where c ceil(ln L) is 15
        *(
            (n, n, {"factor": 3, "sample_factor": 1, "rounding": "ln"}, counts)
            for n, counts in ((1, (1, 1)), (2, (2, 1)), (96, (14, 5)), (720, (20, 7)))
        ),
        (96, 96, {"factor": 2, "sample_factor": 7}, (10, 35)),
    ],
)
def test_numbers_of_active_queries_and_of_sampled_keys(length, n_keys, params, counts):
    attn = ProbAttention(AttentionSpec(1, 4, length, n_keys), **params)
    assert (attn.n_top, attn.n_sample, len(attn.eval_index)) == (*counts, counts[1])


# ProbSparse: its sample, its selection, its dropout


@pytest.mark.parametrize("name", ["self", "causal"])
def test_the_authors_arrays(name):
    with np.load(PARITY / f"probsparse_{name}.npz") as stored:
        q, k, v, index, context = (torch.from_numpy(stored[x]) for x in ("q", "k", "v", "sample_index", "context"))
        n_top, causal = int(stored["n_top"]), bool(stored["causal"])
    options = {"mean": "zero_fill", "context": "cumsum", "causal_selection": False}
    spec = AttentionSpec(q.shape[1], q.shape[3], q.shape[2], k.shape[2], causal)
    attn = ProbAttention(spec, sampling="per_query", **options).eval()
    attn.eval_index, attn.n_top = index, n_top
    torch.testing.assert_close(attn(q, k, v), context, rtol=0, atol=1e-12)


def test_keys_in_eval_are_evenly_spaced_and_no_part_of_the_state():
    attn = made("prob", {"factor": 1}, N31)
    assert attn.eval_index.tolist() == [0, 10, 20, 30]
    assert made("prob", {"sampling": "all"}, N31).eval_index.tolist() == list(range(31))
    assert attn.state_dict() == {}


@pytest.mark.parametrize(
    ("sampling", "authors_draw"),
    [("per_query", lambda: torch.randint(31, (31, 4))), ("shared", lambda: torch.randperm(31)[:4].expand(31, -1))],
)
def test_training_draws_from_the_global_generator(sampling, authors_draw):
    params = {"factor": 1, "sampling": sampling}
    attn, (q, k, v) = made("prob", params, N31).train(), drawn(N31)
    torch.manual_seed(5)
    index = authors_draw().numpy()
    torch.manual_seed(5)
    expected = matrix("prob", attn, params, q, k, index=index) @ v
    torch.testing.assert_close(attn(q, k, v), expected, rtol=1e-11, atol=1e-11)
    assert not torch.equal(attn(q, k, v), attn(q, k, v))


@pytest.mark.parametrize("causal", [False, True])
def test_dropout_of_prob_acts_on_the_active_rows_only(causal):
    q, k, v = drawn(N31)
    attn = made("prob", {"sampling": "all", "factor": 2}, N31, dropout=0.5, causal=causal)
    exact = attn.weights(q, k)
    dropped = attn.train()(q, k, torch.eye(31, dtype=q.dtype).expand(1, 2, -1, -1))
    lazy = ((exact == exact[..., :1]) | (exact == 0)).all(-1)
    active = ~lazy
    lazy[:, :, 0] = active[:, :, 0] = False  # one key: the same whether lazy or active
    torch.testing.assert_close(dropped[lazy], exact[lazy], rtol=1e-11, atol=1e-11)
    gone = dropped[active] == 0
    torch.testing.assert_close(dropped[active], torch.where(gone, 0, 2 * exact[active]), rtol=1e-11, atol=1e-11)
    assert 0.3 < gone[exact[active] > 0].double().mean() < 0.7
    published = made("prob", {"sampling": "all", "row_dropout": False}, N31, dropout=0.5)
    assert torch.equal(published.train()(q, k, v), published.eval()(q, k, v))


# Performer: its directions


@pytest.mark.slow
@pytest.mark.parametrize("radii", ["gaussian", "quantile"])
@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("kind", ["positive", "trig"])
def test_performer_approaches_full_attention(kind, orthogonal, radii):
    """The mean over draws falls as m^-0.5, by 5.7 from each size to the next."""
    q, k, _ = drawn((9, 9), e=4, scale=0.5)
    exact, spec = FullAttention(AttentionSpec(2, 4, 9, 9)).weights(q, k), AttentionSpec(2, 4, 9, 9)

    def error(m):
        params = {"kind": kind, "orthogonal": orthogonal, "radii": radii, "n_features": m}
        errors = []
        for seed in range(12):
            torch.manual_seed(seed)
            errors.append((build_attention("performer", spec, **params).double().weights(q, k) - exact).abs().mean())
        return torch.stack(errors).mean()

    errors = [error(m) for m in (16, 512, 16384)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 2e-3


def test_directions_are_redrawn_in_training_alone_and_the_count_is_saved():
    attn, operands = made("performer", {"redraw_every": 2}, N7), drawn(N7)
    first, seen = attn.directions, []
    for _ in range(5):
        attn(*operands)
    attn.train()
    for _ in range(3):
        attn(*operands)
        seen.append(torch.equal(attn.directions, first))
    assert seen == [True, True, False]
    resumed = made("performer", {"redraw_every": 2}, N7).train()
    resumed.load_state_dict(attn.state_dict())
    torch.manual_seed(7)
    for is_kept in (True, False):
        resumed(*operands)
        assert torch.equal(resumed.directions, attn.directions) is is_kept


def directions(n, e, *, orthogonal=True, radii="gaussian"):
    torch.manual_seed(0)
    return random_directions(n, e, orthogonal=orthogonal, radii=radii).numpy()


@pytest.mark.parametrize("radii", ["gaussian", "sqrt_d", "quantile"])
@pytest.mark.parametrize(("n", "e"), [(1, 1), (3, 5), (12, 5), (7, 1)])
def test_blocks_of_directions_are_orthogonal(n, e, radii):
    w = directions(n, e, radii=radii)
    assert w.shape == (n, e)
    for start in range(0, n, e):
        products = w[start : start + e] @ w[start : start + e].T
        assert np.allclose(products, np.diag(np.diag(products)), atol=1e-12)
    independent = directions(4, 4, orthogonal=False)
    assert np.abs(np.tril(independent @ independent.T, -1)).max() > 0.1


@pytest.mark.parametrize("orthogonal", [False, True])
def test_directions_are_uniform_and_have_the_lengths_they_should(orthogonal):
    """A coordinate of a uniform point on the sphere in 3 dimensions is uniform; gaussian lengths follow chi."""
    for column in (directions(6000, 3, orthogonal=orthogonal, radii="sqrt_d") / np.sqrt(3)).T:
        assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > 0.001
    lengths = np.linalg.norm(directions(4000, 5, orthogonal=orthogonal), axis=1)
    assert stats.kstest(lengths, stats.chi(5).cdf).pvalue > 0.01
    assert np.allclose(np.linalg.norm(directions(9, 5, radii="sqrt_d"), axis=1), np.sqrt(5))
    lengths = np.linalg.norm(directions(12, 5, radii="quantile"), axis=1)
    assert np.allclose(stats.chi(5).cdf(np.sort(lengths)), np.arange(1, 13) / 13)
    assert (np.diff(lengths) < 0).any()


@pytest.mark.parametrize("e", [1, 2, 64, 513])
def test_chi_quantiles(e):
    levels = np.array([1e-4, 0.3, 0.5, 0.999999])
    assert np.allclose(chi_quantiles(torch.from_numpy(levels), e).numpy(), stats.chi(e).ppf(levels), rtol=1e-9)


# sums and steps of the linear-time kernels


@pytest.mark.parametrize("n_borders", [1, 3])
def test_running_sums_are_those_of_a_loop(n_borders):
    generator = torch.Generator().manual_seed(0)
    before, chunks = (torch.randn(shape, generator=generator).double() for shape in ((1, 2, 3, 4), (1, 2, 5, 3, 4)))
    borders = torch.rand(1, 2, 6, n_borders, generator=generator).double().cumsum(dim=2)
    sums, expected = before, [before]
    for n in range(5):
        sums = sums * (borders[:, :, n] - borders[:, :, n + 1]).exp().unsqueeze(-1) + chunks[:, :, n]
        expected.append(sums)
    totals, last = running_sums(before, chunks, borders)
    torch.testing.assert_close(totals, torch.stack(expected[:-1], dim=2))
    torch.testing.assert_close(last, expected[-1])


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 10, 150])
def test_sums_in_a_fixed_order_are_running_sums(n):
    """What CUDA takes where results are to be repeatable; red if a block's rows or the blocks before it miss."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, n, 5, dtype=torch.float64)
    torch.testing.assert_close(ordered_sum(x), x.cumsum(dim=2), rtol=1e-12, atol=1e-12)


STEPS = [
    *(("linear", {"feature_map": name}) for name in ("elu", "relu", "exp", "softmax")),
    ("performer", {}), ("performer_trig", {"n_features": 40}), ("taylor", {}),
    ("gated_delta", {}), *(("efficient", {"normaliser": name}) for name in ("feature", "row")),
]  # fmt: skip


def by_steps(attn, q, k, v):
    state, rows = attn.initial_state(len(q), v.shape[3]), []
    sizes = [x.shape for x in state]
    for operands in zip(*(x.unbind(dim=2) for x in (q, k, v)), strict=True):
        row, state = attn.step(state, *operands)
        rows.append(row)
    assert [x.shape for x in state] == sizes, "the state grows"
    return torch.stack(rows, dim=2)


@pytest.mark.parametrize("ramp", [None, (0.1, 60), (60, 0.1)])
@pytest.mark.parametrize(("name", "params"), STEPS)
def test_steps_give_the_rows_of_the_whole_sequence(name, params, ramp):
    """S_i and z_i one position at a time. Red if a sum, a unit or the normaliser of `step` is off."""
    attn, (q, k, v) = made(name, params, N131, causal=True), drawn(N131, scale=0.5 if ramp else 1.5)
    k = k * torch.linspace(*ramp, 131).double()[:, None] if ramp else k
    largest = max(1.0, float(attn.weights(q, k).detach().abs().max()))  # sines and cosines may cancel
    torch.testing.assert_close(by_steps(attn, q, k, v), attn(q, k, v), rtol=1e-10, atol=1e-10 * largest)


@pytest.mark.parametrize(("name", "params"), STEPS)
def test_a_state_is_never_written_to_sums_in_single_precision_and_has_gradients(name, params):
    attn, operands = made(name, params, (6, 6), causal=True), drawn((6, 6), scale=0.7)
    q, k, v = (x[:, :, 0] for x in operands)
    state = attn.step(attn.initial_state(1, 4), q, k, v)[1]
    assert torch.equal(attn.step(state, q, k, v)[0], attn.step(state, q, k, v)[0])
    leaves = [x.requires_grad_() for x in operands]
    found, expected = (
        torch.autograd.grad(rows.square().sum(), leaves) for rows in (by_steps(attn, *leaves), attn(*leaves))
    )
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    row, state = attn.float().step(attn.initial_state(1, 4), *(x.bfloat16() for x in (q, k, v)))
    assert (row.dtype, state[0].dtype) == (torch.bfloat16, torch.float32)
    with pytest.raises(ValueError, match="causal"):
        made(name, params, (6, 6)).initial_state(1)


# tokens in front of the rows, attended in four parts


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(
    ("name", "params"),
    [("etc", {"radius": 2}), ("etc", {"radius": 10**6}), ("bigbird_etc", {"window": 3, "n_random": 2})],
)
def test_global_and_local_rows_equal_the_formula(name, params, n):
    """One softmax over all tokens and the rows that a row may attend to. Red if a part has a softmax by itself."""
    local = build_attention(name, AttentionSpec(2, 5, *N31), n_global=0, **params)
    attn = GlobalLocalAttention(AttentionSpec(2, 5, n + 31, n + 31), local, n_tokens=n).double().eval()
    q, k, v = drawn((n + 31, n + 31))
    near = torch.ones(2, n + 31, n + 31, dtype=torch.bool)
    for head in range(2):
        distance = (torch.arange(31) - torch.arange(31)[:, None]).abs()
        rows = distance <= (local.radius if name == "etc" else local.reach)
        if name == "bigbird_etc":
            rows = rows.scatter(1, local.random_keys[head].clamp(min=0), True)
            assert (local.random_keys >= 0).all()
        near[head, n:, n:] = rows
    expected = ((q @ k.mT) * 5**-0.5).masked_fill(~near, -math.inf).softmax(-1) @ v
    torch.testing.assert_close(attn(q, k, v), expected, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(attn.weights(q, k) @ v, expected, rtol=1e-11, atol=1e-11)
    assert_gradients(attn, *drawn((n + 31, n + 31), seed=1))
    with pytest.raises(ValueError, match="n_tokens: expected a whole number of at least 1, found 0"):
        GlobalLocalAttention(AttentionSpec(2, 5, *N31), local, n_tokens=0)
