"""Linformer against a loop over softmax(s q (E k)^T) F."""

import numpy as np
import pytest
import torch
from naive import CROSS, SELF, assert_realises, draw, softmax, spec_of

from informer.networks.attention.linformer import LinformerAttention


def make(sizes, *, causal=False, dropout=0.0, **params):
    torch.manual_seed(1)
    return LinformerAttention(spec_of(sizes, causal=causal, dropout=dropout), **params).double().eval()


def loop(attn, q, k):
    b, h, n_queries, e = q.shape
    proj_k, proj_v = attn.proj_k.detach().numpy(), attn.proj_v.detach().numpy()
    result = np.zeros((b, h, n_queries, k.shape[2]))
    for item, head, i in np.ndindex(b, h, n_queries):
        slots = proj_k[head] @ k[item, head].numpy()
        result[item, head, i] = softmax(slots @ q[item, head, i].numpy() / np.sqrt(e)) @ proj_v[head]
    return torch.from_numpy(result)


@pytest.mark.parametrize("share_kv", [False, True])
@pytest.mark.parametrize("proj_len", [1, 4, 64])
@pytest.mark.parametrize("sizes", SELF + CROSS)
def test_equals_the_formula(sizes, proj_len, share_kv):
    attn, (q, k, v) = make(sizes, proj_len=proj_len, share_kv=share_kv), draw(sizes)
    assert_realises(attn, q, k, v, loop(attn, q, k))


def test_projects_to_no_more_rows_than_keys():
    assert make(SELF[0], proj_len=64).proj_k.shape == (3, 7, 7)
    assert make(SELF[0], proj_len=5).proj_v.shape == (3, 5, 7)


def test_sharing_halves_the_parameters():
    sizes = CROSS[0]
    count = {share: sum(p.numel() for p in make(sizes, share_kv=share).parameters()) for share in (False, True)}
    assert count == {False: 2 * 3 * 9 * 9, True: 3 * 9 * 9}


def test_a_projected_key_is_as_large_as_a_key():
    attn = make((1, 4, 500, 500, 8, 8), proj_len=40)
    slots = attn.proj_k @ torch.randn(1, 4, 500, 8, dtype=torch.float64)
    assert 0.9 < slots.std() < 1.1


def test_dropout_acts_in_training():
    attn, operands = make(SELF[2], dropout=0.5), draw(SELF[2])
    assert torch.equal(attn(*operands), attn(*operands))
    assert not torch.allclose(attn.train()(*operands), attn.eval()(*operands))
