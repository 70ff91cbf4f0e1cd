"""The contract of every name that `attn=` accepts (see `informer/networks/attention/base.py`); new yaml files are
included automatically. `test_formulas` has that outputs are those of a formula, whose rows sum to 1 and see no future.
Lengths are odd, there are three heads, keys and values have different widths, and arithmetic is float64, unless a test
says otherwise."""

import copy
import inspect
import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from entry_points import ROOT
from mechanisms import assert_gradients, matrix
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from informer.checkpoint import attention_names, attention_node, build_attention
from informer.checkpoint.network import attention_class
from informer.networks import Attention, AttentionSpec
from informer.networks.attention.full import FullAttention
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.ops import fast

NAMES = attention_names()
CLASSES = {name: attention_class(attention_node(name)["_target_"]) for name in NAMES}
BOTH = [(name, causal) for name in NAMES for causal in (False, True) if CLASSES[name].CAUSAL or not causal]
SUBQUADRATIC = [name for name in NAMES if not CLASSES[name].COST.startswith("O(L^2")]

EXCEPTIONS = {
    "float32": dict.fromkeys(
        ("autocorrelation", "prob", "topk", "hard", "reformer", "vq"), "selects: two roundings may differ in a near tie"
    ),
    "gradcheck": dict.fromkeys(("hard", "vq"), "its gradient is straight-through, not that of its output"),
    "gradients in bfloat16": {"performer_trig": "its normaliser may come near 0, which magnifies rounding"},
    "training leaves no trace": {"em": "training moves its bases", "vq": "training moves its codes"},
}
"""Where a mechanism differs from the others by definition, and why."""


def tolerance(attn: Attention, q: Tensor, k: Tensor, relative: float) -> float:
    """Absolute tolerance: a trigonometric normaliser may come near 0, so it goes by the largest weight."""
    return relative * max(1.0, float(attn.weights(q, k).detach().abs().max()))


def build(name: str, length: int = 97, *, causal: bool = False, e: int = 5, **other) -> Attention:
    facts = {"n_heads": 3, "d_head": e, "len_q": length, "len_k": length, "causal": causal}
    params = other.pop("params", {})
    torch.manual_seed(other.pop("torch_seed", 1))
    return build_attention(name, AttentionSpec(**(facts | other)), **params).double().eval()


def draw(attn: Attention, *, b: int = 2, d: int | None = None, seed: int = 0) -> list[Tensor]:
    s, g = attn.spec, torch.Generator().manual_seed(seed)
    shapes = (s.len_q, s.d_head), (s.len_k, s.d_head), (s.len_k, s.d_head - 1 if d is None else d)
    return [torch.randn(b, s.n_heads, *shape, generator=g, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, each) for name in NAMES for each in inspect.signature(CLASSES[name]).parameters if each != "spec"],
)
def test_a_parameter_of_another_kind_is_refused(name, parameter):
    """Red if a constructor computes with what it is given, or does not say which parameter is wrong."""
    for value in ("no", -1.5, float("nan"), [[]]):
        with pytest.raises(ValueError, match=parameter):
            build(name, params={parameter: value})


@pytest.mark.parametrize(("name", "causal"), [x for x in BOTH if CLASSES[x[0]].LAST_ROWS])
def test_the_last_rows_alone_are_those_of_all(name, causal):
    """Red if a row is masked as the first ones are, or sees no key before the first of these rows."""
    attn = build(name, causal=causal)
    q, k, v = draw(attn)
    with fast.forms(whole=3000, cached=1500):
        torch.testing.assert_close(attn(q[:, :, -31:], k, v), attn(q, k, v)[:, :, -31:], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(attn.weights(q[:, :, -31:], k), attn.weights(q, k)[:, :, -31:], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [19, 60])
def test_other_lengths_are_right_or_refused(name, length):
    """Red if what was made for one length (a sample, a table of positions) is silently used for another."""
    attn, other = build(name, 40), build(name, length)
    q, k, v = draw(other)
    try:
        out = attn(q, k, v)
    except ValueError as error:
        message = f"expected 40 queries and 40 keys, the lengths it was built for, found {length} and {length}"
        assert str(error) == message  # noqa: PT017 (both outcomes are right)
    else:
        expected = matrix(name, attn, {}, q, k) @ v
        torch.testing.assert_close(out, expected, rtol=1e-9, atol=tolerance(attn, q, k, 1e-9))


@pytest.mark.parametrize(("name", "causal"), BOTH)
def test_small_pieces_give_what_torchs_expressions_give(name, causal):
    """Both forms of `fast`, outputs and gradients. Red if a piece is lost, put elsewhere, or has other keys."""
    attn, found = build(name, causal=causal), []
    q, k, v = draw(attn, d=5)
    grad = torch.randn(v.shape, generator=torch.Generator().manual_seed(3), dtype=v.dtype)
    for forms in ({"whole": 3000, "cached": 1500}, {"on": False}):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)] + [*attn.parameters()]
        with fast.forms(**forms):
            out = attn(*leaves[:3])
        found.append([out, *torch.autograd.grad(out, leaves, grad, allow_unused=True, materialize_grads=True)])
    for piecewise, at_once in zip(*found, strict=True):
        torch.testing.assert_close(piecewise, at_once, rtol=1e-8, atol=1e-9 * float(at_once.detach().abs().max() + 1))


@pytest.mark.parametrize(("name", "causal"), [x for x in BOTH if x[0] not in EXCEPTIONS["float32"]])
def test_float32_gives_the_outputs_of_float64(name, causal):
    attn = build(name, causal=causal)
    inputs = [x.float() for x in draw(attn)]
    exact, atol = attn(*(x.double() for x in inputs)).float(), tolerance(attn, *(x.double() for x in inputs[:2]), 1e-4)
    torch.testing.assert_close(attn.float()(*inputs), exact, rtol=1e-4, atol=atol)


@pytest.mark.parametrize(("name", "causal"), BOTH)
def test_items_and_heads_are_independent(name, causal):
    attn = build(name, causal=causal)
    inputs = draw(attn, b=3)
    alone, atol = attn(*(x[:1] for x in inputs)), tolerance(attn, *inputs[:2], 1e-9)
    torch.testing.assert_close(attn(*inputs)[:1], alone, rtol=1e-9, atol=atol)
    changed = [torch.cat([x[:, :1], 2 - x[:, 1:]], dim=1) for x in inputs]
    torch.testing.assert_close(attn(*changed)[:1, 0], alone[:, 0], rtol=1e-9, atol=atol)


@pytest.mark.parametrize(("name", "causal"), BOTH)
def test_eval_repeats_bit_for_bit_and_training_with_its_seed(name, causal):
    attn = build(name, causal=causal, dropout=0.5)
    inputs = draw(attn)
    first, state, trained = attn(*inputs), copy.deepcopy(attn.state_dict()), []
    for _ in range(2):
        attn.load_state_dict(state)
        torch.manual_seed(7)
        trained.append(attn.train()(*inputs))
    assert torch.equal(*trained)
    if name in EXCEPTIONS["training leaves no trace"]:
        attn.load_state_dict(state)
    torch.manual_seed(99)
    assert torch.equal(attn.eval()(*inputs), first)
    assert torch.equal(build(name, causal=causal)(*inputs), first)


@pytest.mark.parametrize(("name", "causal"), BOTH)
def test_gradients_reach_all_that_learns(name, causal):
    """Red if `unread` is wrong: processes that share a batch wait for the gradient of every parameter that learns. Red,
    too, if an operand or a parameter gets none."""
    torch.manual_seed(0)
    layer = AttentionLayer(12, build(name, 31, causal=causal, n_heads=2, e=6)).double().train()
    x = torch.randn(2, 31, 12, dtype=torch.float64)
    layer(x, x).square().sum().backward()
    learned = {n: p.grad for n, p in layer.named_parameters() if p.requires_grad}
    assert [n for n, grad in learned.items() if grad is None or not grad.isfinite().all()] == []
    assert [n for n, grad in learned.items() if grad.eq(0).all() and n != "key.bias"] == []
    frozen = {n.partition(".")[0] for n, p in layer.named_parameters() if not p.requires_grad}
    assert frozen <= set(layer.attention.unread)


def test_the_mechanism_of_the_tutorial_keeps_the_contract():
    """Red if someone who copies it has a test that fails."""
    text = (ROOT / "docs/tutorials/own_attention.md").read_text()
    names: dict[str, object] = {"__name__": "mean"}
    exec(re.search(r"```python\n(.*?)```", text, re.S)[1], names)
    layer = AttentionLayer(12, names["MeanAttention"](AttentionSpec(2, 6, 9, 7))).double()
    q, k, v = (torch.randn(3, 2, n, 6, dtype=torch.float64) for n in (9, 7, 7))
    torch.testing.assert_close(layer.attention(q, k, v), layer.attention.weights(q, k) @ v)
    layer(*(torch.randn(3, n, 12, dtype=torch.float64) for n in (9, 7))).sum().backward()
    assert {n for n, p in layer.named_parameters() if p.grad is None} == {
        f"{n}.{part}" for n in layer.attention.unread for part in ("weight", "bias")
    }


@pytest.mark.parametrize(("name", "causal"), BOTH)
def test_a_step_in_bfloat16_has_the_gradients_of_float32(name, causal):
    """Red if a gradient of ours mixes the dtypes of autocast; a bound on the mean, because near ties may differ."""
    torch.manual_seed(0)
    layer = AttentionLayer(12, build(name, 31, causal=causal, n_heads=2, e=6)).float().train()
    learned = [parameter for parameter in layer.parameters() if parameter.requires_grad]
    x, state, gradients = torch.randn(2, 31, 12), copy.deepcopy(layer.state_dict()), []
    for half in (False, True):
        layer.load_state_dict(state)
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = layer(x, x).float().square().sum()
        gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, learned)]))
    exact, rounded = gradients
    assert rounded.isfinite().all()
    if name not in EXCEPTIONS["gradients in bfloat16"]:
        assert (rounded - exact).abs().mean() < 0.1 * exact.abs().mean()


@pytest.mark.parametrize(("name", "causal"), [x for x in BOTH if x[0] not in EXCEPTIONS["gradcheck"]])
def test_gradients_are_those_of_finite_differences(name, causal):
    attn = build(name, 7, causal=causal, n_heads=1, e=3)
    assert_gradients(attn, *draw(attn, b=1))


@pytest.mark.parametrize(("name", "causal"), [x for x in BOTH if CLASSES[x[0]].FULL_WHEN is not None])
def test_is_full_attention_where_it_says_so(name, causal):
    attn = build(name, causal=causal, params=CLASSES[name].FULL_WHEN)
    inputs = draw(attn)
    full = FullAttention(attn.spec)
    torch.testing.assert_close(attn(*inputs), full(*inputs), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(attn.weights(*inputs[:2]), full.weights(*inputs[:2]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_state_dict_round_trip(name):
    """Red if parameters, or what is drawn for a mechanism, are not saved."""
    own = {"seed": 1} if "seed" in attention_node(name) else {}
    first, second = build(name), build(name, torch_seed=2, params=own)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(torch.rand_like(parameter))
    inputs = draw(first)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(*inputs), second(*inputs))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize(("name", "causal"), BOTH)
@pytest.mark.parametrize(("dtype", "scale"), [(torch.bfloat16, 1.0), (torch.float32, 1e3), (torch.float32, 0.0)])
def test_finite_in_half_precision_and_for_large_or_no_inputs(name, causal, dtype, scale):
    attn = build(name, 45, causal=causal).to(dtype)
    q, k, v = (x.to(dtype) for x in draw(attn))
    leaves = [(q * scale).requires_grad_(), (k * scale).requires_grad_(), v.requires_grad_()]
    out = attn(*leaves)
    assert out.dtype == dtype
    assert out.isfinite().all()
    assert attn.weights(*leaves[:2]).isfinite().all()
    gradients = torch.autograd.grad(out.sum(), leaves, allow_unused=True)
    assert all(g.isfinite().all() for g in gradients if g is not None)


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_it_cannot_serve_is_refused(name):
    mechanism = CLASSES[name]
    for can, message, facts in (
        (mechanism.CAUSAL, "has no causal form", {"causal": True}),
        (mechanism.CROSS, "needs len_q == len_k, found 5 and 7", {"len_q": 5, "len_k": 7}),
    ):
        with nullcontext() if can else pytest.raises(ValueError, match=f"{mechanism.__name__} {message}"):
            build(name, **facts)


class LargestArray(TorchDispatchMode):
    """Bytes of the largest storage that any operation returns, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.n_bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [x.untyped_storage().nbytes() for x in tree_leaves(result) if isinstance(x, Tensor)]
        self.n_bytes = max([self.n_bytes, *sizes])
        return result


def largest_array(attn: Attention) -> int:
    leaves = [x.float().requires_grad_() for x in draw(attn, b=1)]
    with LargestArray() as largest:
        attn(*leaves).sum().backward()
    return largest.n_bytes


@pytest.mark.parametrize(("name", "causal"), [x for x in BOTH if x[0] in SUBQUADRATIC])
def test_no_array_of_all_pairs(name, causal):
    attn = build(name, 2048, causal=causal, n_heads=1, e=8).float().train()
    assert largest_array(attn) < 2048**2  # as booleans, of the one head and item


COMPILED = [(name, CLASSES[name].CAUSAL) for name in NAMES]
"""The other form is in the graphs of whole networks, tests/inference/test_export.py."""


@pytest.fixture(scope="module")
def graphs() -> dict[str, float | str]:
    root = Path(__file__).parents[2]
    cases = [f"{name}:{causal}" for name, causal in COMPILED]
    command = [sys.executable, str(Path(__file__).with_name("graphs.py")), *cases]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(root)}, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "causal"), COMPILED)
def test_compiled_graph_gives_the_eager_numbers(graphs, name, causal):
    difference = graphs[f"{name}:{causal}"]
    assert isinstance(difference, float), difference
    assert difference < 1e-9
