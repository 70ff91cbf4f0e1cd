"""Recurrent steps give the rows of the whole sequence."""

import pytest
import torch
from naive import draw, spec_of

from informer.build import build_attention
from informer.networks.attention.base import Attention

SIZES = (2, 3, 150, 150, 5, 4)  # three chunks of the causal forward
CASES = {
    **{f"linear {name}": ("linear", {"feature_map": name}) for name in ("elu", "relu", "exp", "softmax")},
    "performer": ("performer", {}),
    "performer_trig": ("performer_trig", {"n_features": 40}),
    "efficient feature": ("efficient", {"normaliser": "feature"}),
    "efficient row": ("efficient", {"normaliser": "row"}),
    "taylor": ("taylor", {}),
}
CACHED = {"full": ("full", {}), "dot": ("dot", {})}
ALL = CASES | CACHED


def make(case: str, sizes=SIZES, *, causal: bool = True) -> Attention:
    name, params = ALL[case]
    torch.manual_seed(0)
    return build_attention(name, spec_of(sizes, causal=causal), **params).double().eval()


def by_steps(attn, q, k, v):
    state, rows = attn.initial_state(q.shape[0], v.shape[3]), []
    for operands in zip(*(x.unbind(dim=2) for x in (q, k, v)), strict=True):
        row, state = attn.step(state, *operands)
        rows.append(row)
    return torch.stack(rows, dim=2), state


@pytest.mark.parametrize("case", ALL)
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_steps_give_the_causal_rows(case, scale):
    """Red if a sum, a unit or the normaliser of `step` is off, or the mean of a row without one."""
    q, k, v = draw(SIZES, scale=scale)
    attn = make(case)
    output, expected = by_steps(attn, q, k, v)[0], attn(q, k, v)
    # sines and cosines may cancel: their rounding goes by the largest weight
    largest = max(1.0, float(attn.weights(q, k).abs().max()))
    torch.testing.assert_close(output, expected, rtol=1e-10, atol=1e-10 * largest)


@pytest.mark.parametrize("case", CASES)
def test_keys_that_grow_or_shrink_without_end(case):
    """Red without a unit for features that grow like exp."""
    q, k, v = draw(SIZES, scale=0.5)
    for ramp in (torch.linspace(0.1, 60, SIZES[2]), torch.linspace(60, 0.1, SIZES[2])):
        steep = k * ramp.double()[:, None]
        attn = make(case)
        largest = max(1.0, float(attn.weights(q, steep).abs().max()))
        output = by_steps(attn, q, steep, v)[0]
        torch.testing.assert_close(output, attn(q, steep, v), rtol=1e-9, atol=1e-9 * largest)


@pytest.mark.parametrize("case", CASES)
def test_the_state_does_not_grow(case):
    """Red if a state keeps keys or values."""
    q, k, v = draw(SIZES)
    attn = make(case)
    first = [x.shape for x in attn.initial_state(q.shape[0], v.shape[3])]
    assert [x.shape for x in by_steps(attn, q, k, v)[1]] == first
    assert max(x.numel() for x in by_steps(attn, q, k, v)[1]) < k.numel() or "performer" in case


@pytest.mark.parametrize("case", CASES)
def test_half_precision_sums_in_single(case):
    q, k, v = (x.bfloat16() for x in draw((1, 2, 40, 40, 4, 4), scale=0.3))
    attn = make(case, (1, 2, 40, 40, 4, 4)).float()
    output, state = by_steps(attn, q, k, v)
    assert output.dtype == torch.bfloat16
    assert state.s.dtype == torch.float32
    torch.testing.assert_close(output.float(), attn(q, k, v).float(), rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("case", ALL)
def test_gradients_are_those_of_the_whole_sequence(case):
    sizes = (1, 2, 6, 6, 3, 2)
    attn, leaves = make(case, sizes), [x.requires_grad_() for x in draw(sizes, scale=0.7)]
    gradients = torch.autograd.grad(by_steps(attn, *leaves)[0].square().sum(), leaves)
    expected = torch.autograd.grad(attn(*leaves).square().sum(), leaves)
    for a, b in zip(gradients, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


def test_a_state_may_be_gone_on_from_twice():
    """Red if a step writes into the state it is given."""
    q, k, v = (x[:, :, 0] for x in draw(SIZES))
    for case in ALL:
        attn = make(case)
        state = attn.step(attn.initial_state(2, 4), q, k, v)[1]
        assert torch.equal(attn.step(state, q, k, v)[0], attn.step(state, q, k, v)[0])


def test_full_attention_keeps_the_precision_of_its_operands():
    """Red if the empty state makes keys of half precision single."""
    q, k, v = (x.bfloat16() for x in draw((1, 2, 5, 5, 4, 4)))
    output, state = by_steps(make("full", (1, 2, 5, 5, 4, 4)).float(), q, k, v)
    assert {output.dtype, state.k.dtype, state.v.dtype} == {torch.bfloat16}
    assert torch.equal(state.k, k)


@pytest.mark.parametrize("case", ALL)
def test_a_layer_that_is_not_causal_has_no_recurrent_form(case):
    with pytest.raises(ValueError, match="causal"):
        make(case, causal=False).initial_state(2)
