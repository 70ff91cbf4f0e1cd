"""What mechanisms do beyond their formulas and the contract: dropout, draws, averages, gradients of their
own, and numbers that would overflow, vanish or cancel."""

from pathlib import Path

import numpy as np
import pytest
import torch
from formulas import softmax
from mechanisms import assert_gradients, by_steps, drawn, made, matrix

from informer.checkpoint import attention_names, build_attention
from informer.networks import AttentionSpec
from informer.networks.attention.bigbird import BigBirdAttention
from informer.networks.attention.full import FullAttention
from informer.networks.attention.prob import ProbAttention
from informer.networks.attention.running_sums import ordered_sum
from informer.networks.ops import fast

PARITY = Path(__file__).parents[1] / "parity"
N7, N31, N131 = (7, 7), (31, 31), (131, 131)


@pytest.mark.parametrize("radii", ["gaussian", "sqrt_d", "quantile"])
@pytest.mark.parametrize(("n", "e"), [(3, 5), (12, 5), (7, 1)])
def test_blocks_of_directions_are_orthogonal(n, e, radii):
    w = made("performer", {"n_features": n, "radii": radii}, N7, e=e).directions
    assert w.shape == (n, e)
    for block in w.split(e):
        products = block @ block.T
        torch.testing.assert_close(products, products.diag().diag(), rtol=0, atol=1e-6)
    assert radii != "sqrt_d" or torch.allclose(w.norm(dim=1), torch.tensor(e, dtype=w.dtype).sqrt())


# dropout and draws


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *((name, {}) for name in ("full", "additive", "bilinear", "topk", "synthesizer", "synthesizer_dense")),
        *((name, {}) for name in ("pooled", "truncated", "log_sparse")),
        ("reformer", {"n_buckets": 4}),
        *((name, {"window": 6, "n_global": 2}) for name in ("longformer", "bigbird")),
        *((f"sparse_{kind}", {"heads": "merge"}) for kind in ("strided", "fixed")),
        *(("prob", {"sampling": "all", "factor": 2, "row_dropout": given}) for given in (True, False)),
    ],
)  # fmt: skip
def test_dropout_acts_on_the_weights(name, params):
    """One-hot values read the weights: each is 0 or divided by 1 - p, and both happen; lazy rows of prob are kept."""
    q, k, _ = drawn((45, 45), e=3, scale=0.5)
    attn = made(name, params, (45, 45), e=3, dropout=0.4)
    dropped, kept = attn.train()(q, k, torch.eye(45, dtype=q.dtype).expand(1, 2, -1, -1)), attn.weights(q, k) / 0.6
    if name == "pooled":  # a weight of a run of keys
        dropped, kept = dropped[..., ::4], kept[..., ::4]
    if name == "prob":
        lazy = (kept == kept[..., :1]).all(-1) | (not params["row_dropout"])
        torch.testing.assert_close(dropped[lazy], 0.6 * kept[lazy], rtol=1e-11, atol=1e-11)
        dropped, kept = dropped[~lazy], kept[~lazy]
    zero = dropped == 0
    torch.testing.assert_close(dropped, torch.where(zero, 0, kept), rtol=1e-11, atol=1e-11)
    assert not len(kept) or 0.1 < zero[kept > 0].double().mean() < 0.9


@pytest.mark.parametrize("name", [name for name in attention_names() if name not in ("relu",)])
def test_the_backward_pass_draws_what_the_forward_pass_drew(name):
    """Outputs are linear in the values, so sum(gradient * values) is their sum. Red if a piece that is computed again
    has another mask, noise or mode."""
    attn, (q, k, v) = made(name, {}, (13, 13), dropout=0.4).train(), drawn((13, 13))
    v.requires_grad_()
    with fast.forms(whole=1, cached=1):
        out = attn(q, k, v)
    attn.eval()
    torch.rand(1)
    (gradient,) = torch.autograd.grad(out.sum(), v)
    torch.testing.assert_close((gradient * v).sum(), out.sum())


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
@pytest.mark.parametrize(("window", "n_global", "n_random"), [(4, 3, 5), (30, 1, 40)])
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
    """Against the dense softmax with k + (code - k) as keys. Red if either way of summing it leaves a pair out, or if
    its gradient is a constant where it is differentiated again."""
    e, d = sizes
    attn = made("vq", {"n_codes": n_codes}, lengths, e=e, causal=causal)
    q, k, v = (x.requires_grad_() for x in drawn(lengths, e=e, d=d))
    upstream = torch.randn(*q.shape[:3], d, dtype=v.dtype)
    found = torch.autograd.grad((attn(q, k, v) * upstream).sum(), [q, k, v])
    nearest = ((k[:, :, :, None] - attn.codes[:, None]) ** 2).sum(-1).argmin(-1)
    codes = torch.stack([attn.codes[head][nearest[0, head]] for head in range(2)])[None]
    close = {"rtol": 1e-9, "atol": 1e-10}
    with fast.forms(on=False):
        out = FullAttention(attn.spec)(q, k + (codes - k).detach(), v)
        torch.testing.assert_close(
            found, list(torch.autograd.grad((out * upstream).sum(), [q, k, v], retain_graph=True)), **close
        )
        second = []
        for each in (out, attn(q, k, v)):
            (gradient,) = torch.autograd.grad((each * upstream).sum(), k, create_graph=True)
            second.append(torch.autograd.grad(gradient.square().sum(), [q, k, v]))
    torch.testing.assert_close(*second, **close)


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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["linear", "relu", "taylor"])
def test_a_row_without_weight_takes_the_mean_of_its_allowed_values(name, causal):
    """Features that vanish, unit vectors opposite to all keys; rows of relu, which has an epsilon, are zero."""
    attn, (q, k, v) = made(name, {}, (9, 9), causal=causal), (x.float() for x in drawn((9, 9)))
    q[:, :, 6] = q[:, :, 6].abs() + (1000 if name == "linear" else 0.1)
    if name == "linear":
        q[:, :, 6] *= -1
    else:
        k = -q[:, :, 6:7] * torch.arange(1, 10)[:, None] / 3
    mean = v[:, :, :7].mean(dim=2) if causal else v.mean(dim=2)
    expected = torch.zeros_like(mean) if name == "relu" else mean
    torch.testing.assert_close(attn(q, k, v)[:, :, 6], expected)
    torch.testing.assert_close((attn.weights(q, k) @ v)[:, :, 6], expected)


@pytest.mark.parametrize("name", ["linear", "taylor", "efficient", "performer"])
def test_half_precision_sums_in_single(name):
    attn, (q, k, v) = made(name, {}, (500, 500), causal=True).float(), drawn((500, 500), scale=0.3)
    q, k, v = (x.bfloat16() for x in (q, k, v))
    out = attn(q, k, v)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), attn(q.float(), k.float(), v.float()), rtol=2**-8, atol=2**-8)


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


def test_bilinear_starts_as_full_attention_and_a_convolution_as_the_average():
    spec, operands = AttentionSpec(2, 5, 7, 12), drawn((7, 12))
    attn = build_attention("bilinear", spec).double()
    torch.testing.assert_close(attn(*operands), FullAttention(spec)(*operands), rtol=0, atol=1e-6)
    conv, average = (build_attention("pooled", spec, ratio=4, kind=kind).double() for kind in ("conv", "avg"))
    torch.testing.assert_close(conv(*operands), average(*operands))


# ProbSparse: its arrays and its sample


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


# Performer: its directions


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


# sums and steps of the linear-time kernels


@pytest.mark.parametrize("n", [1, 9, 10, 150])
def test_sums_in_a_fixed_order_are_running_sums(n):
    """What CUDA takes where results are to be repeatable; red if a block's rows or the blocks before it miss."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, n, 5, dtype=torch.float64)
    torch.testing.assert_close(ordered_sum(x), x.cumsum(dim=2), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "params"), [("linear", {}), ("linear", {"feature_map": "exp"}), ("efficient", {}), ("gated_delta", {})]
)
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
