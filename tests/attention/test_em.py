"""EM attention against loops over keys and bases, and the moving average of its bases."""

import numpy as np
import pytest
import torch
from naive import CROSS, SELF, assert_realises, draw, softmax, spec_of

from informer.networks.attention.em import EMAttention


def make(sizes, **params):
    torch.manual_seed(0)
    return EMAttention(spec_of(sizes), **({"n_bases": 4} | params)).double().eval()


def fitted(attn, k, head):
    """For the keys [s e] of one head: the bases before the last step, the shares of the bases, and the bases after
    it."""
    bases = attn.bases[head].numpy()
    for _ in range(attn.n_steps):
        read = bases
        shares = np.stack([softmax(np.array([key @ base for base in read])) for key in k])
        columns = np.stack([shares[:, n] / shares[:, n].sum() for n in range(len(read))])
        bases = np.stack([sum(column[j] * k[j] for j in range(len(k))) for column in columns])
        if attn.unit_bases:
            bases = np.stack([base / np.sqrt((base**2).sum()) for base in bases])
    return read, columns, bases


def matrix(attn, q, k):
    result = np.zeros((*q.shape[:3], k.shape[2]))
    for b, h in np.ndindex(*q.shape[:2]):
        bases, columns, _ = fitted(attn, k[b, h].numpy(), h)
        for i, query in enumerate(q[b, h].numpy()):
            result[b, h, i] = softmax(np.array([query @ base for base in bases])) @ columns
    return torch.from_numpy(result)


@pytest.mark.parametrize("params", [{}, {"n_bases": 1}, {"n_steps": 1}, {"n_steps": 5, "unit_bases": False}])
@pytest.mark.parametrize("sizes", [*SELF, *CROSS])
def test_equals_the_formula(sizes, params):
    attn, (q, k, v) = make(sizes, **params), draw(sizes)
    assert_realises(attn, q, k, v, matrix(attn, q, k))


def test_of_one_sequence_it_is_the_papers_reconstruction():
    """q = k = v without scaled bases: Z mu, mu the bases after the last step."""
    x = draw((1, 1, 9, 9, 3, 3))[1]
    attn = make((1, 1, 9, 9, 3, 3), unit_bases=False)
    read, _, last = fitted(attn, x[0, 0].numpy(), 0)
    shares = np.stack([softmax(read @ key) for key in x[0, 0].numpy()])
    torch.testing.assert_close(attn(x, x, x)[0, 0], torch.from_numpy(shares @ last), rtol=1e-11, atol=1e-11)


def test_training_moves_the_bases_towards_the_mean_of_the_batch():
    """Red if the mean is over heads too, the share is the other one, or eval moves them."""
    sizes = (2, 3, 7, 7, 5, 4)
    attn, (q, k, v) = make(sizes, momentum=0.75), draw(sizes)
    before = attn.bases.clone()
    last = np.mean([[fitted(attn, k[b, h].numpy(), h)[2] for h in range(sizes[1])] for b in range(sizes[0])], axis=0)
    expected = attn(q, k, v)
    assert torch.equal(attn.bases, before)
    torch.testing.assert_close(attn.train()(q, k, v), expected)
    torch.testing.assert_close(attn.bases, 0.75 * before + 0.25 * torch.from_numpy(last), rtol=1e-11, atol=1e-11)


def test_a_momentum_of_one_keeps_the_bases():
    attn, operands = make(SELF[0], momentum=1.0), draw(SELF[0])
    before = attn.bases.clone()
    attn.train()(*operands)
    assert torch.equal(attn.bases, before)


def test_a_pending_backward_pass_keeps_its_bases():
    """Red if the buffer is written in place."""
    (q, k, v), gradients = draw(SELF[0]), []
    for again in (False, True):
        attn, leaf = make(SELF[0]).train(), q.clone().requires_grad_()
        out = attn(leaf, k, v)
        if again:
            attn(q, k, v)
        gradients.append(torch.autograd.grad(out.square().sum(), leaf)[0])
    assert torch.equal(*gradients)


def test_keys_of_zero_and_far_away():
    """Red where a base without keys is divided by its sum, or a base of length 0 by its length."""
    q, k, v = (x.float() for x in draw((1, 1, 9, 9, 3, 3)))
    for keys in (k * 0, k * 1e4):
        attn = make((1, 1, 9, 9, 3, 3), n_bases=20).float()
        leaf = keys.clone().requires_grad_()
        out = attn(q, leaf, v)
        out.sum().backward()
        assert out.isfinite().all()
        assert leaf.grad.isfinite().all()
