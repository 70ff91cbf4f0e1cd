"""ProbSparse attention against a loop over queries and sampled keys, and against the authors' arrays."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from naive import CROSS, SELF, assert_realises, draw, softmax, spec_of

from informer.networks.attention import sparsity as measurement
from informer.networks.attention.prob import ProbAttention, probsparse
from informer.networks.attention.sparsity import sparsity

PARITY = Path(__file__).parents[1] / "parity"
SHAPES = [(x, c) for x in SELF for c in (False, True)] + [(x, False) for x in CROSS]


def measure_of_row(query, keys, sampled, *, i, masked, mean, zero_in_max=False):
    """M_i (sampled: indices, repeated ones count twice; None: eq. 2 over every key)."""
    allowed = [j for j in range(len(keys)) if j <= i or not masked]
    seen = [j for j in (allowed if sampled is None else sampled) if j in allowed]
    filled = [0.0] if zero_in_max and set(allowed) - set(seen) else []
    if not seen:
        return 0.0 if filled else -math.inf
    products = [float(query @ keys[j]) / (math.sqrt(len(query)) if sampled is None else 1) for j in seen]
    peak = np.logaddexp.reduce(products) if sampled is None else max(products + filled)
    return peak - sum(products) / (len(keys) if mean == "zero_fill" else len(seen))


def measures(q, k, index, *, masked, mean, zero_in_max=False):
    result = np.empty(q.shape[:3])
    for b, h, i in np.ndindex(*q.shape[:3]):
        sampled = None if index is None else (index if index.ndim == 1 else index[i]).tolist()
        options = {"i": i, "masked": masked, "mean": mean, "zero_in_max": zero_in_max}
        result[b, h, i] = measure_of_row(q[b, h, i].numpy(), k[b, h].numpy(), sampled, **options)
    return result


def loop(q, k, index, n_top, *, causal, mean="sample", context="mean", causal_selection=True, zero_in_max=False):
    """The matrix [b h l s], row by row."""
    ranked = measures(q, k, index, masked=causal and causal_selection, mean=mean, zero_in_max=zero_in_max)
    result = np.zeros((*q.shape[:3], k.shape[2]))
    for b, h, i in np.ndindex(*q.shape[:3]):
        n = i + 1 if causal else k.shape[2]
        if i in np.argsort(-ranked[b, h], kind="stable")[:n_top]:
            result[b, h, i, :n] = softmax((k[b, h, :n] @ q[b, h, i]).numpy() / math.sqrt(q.shape[3]))
        else:
            result[b, h, i, :n] = 1 if causal and context == "cumsum" else 1 / n
    return torch.from_numpy(result)


def make(sizes, *, factor=1, **options):
    facts = {name: options.pop(name) for name in ("causal", "dropout") if name in options}
    return ProbAttention(spec_of(sizes, **facts), factor=factor, **options).eval()


@pytest.mark.parametrize("name", ["self", "causal"])
def test_the_authors_arrays(name):
    with np.load(PARITY / f"probsparse_{name}.npz") as stored:
        q, k, v, index, context = (torch.from_numpy(stored[x]) for x in ("q", "k", "v", "sample_index", "context"))
        n_top, causal = int(stored["n_top"]), bool(stored["causal"])
    options = {"mean": "zero_fill", "context": "cumsum", "causal_selection": False}
    output = probsparse(q, k, v, sample_index=index, n_top=n_top, causal=causal, **options)
    torch.testing.assert_close(output, context, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sampling", ["shared", "per_query", "all", "lse"])
@pytest.mark.parametrize("mean", ["sample", "zero_fill"])
@pytest.mark.parametrize(("sizes", "causal"), SHAPES)
def test_equals_the_formula(sizes, causal, sampling, mean):
    q, k, v = draw(sizes)
    attn = make(sizes, causal=causal, sampling=sampling, mean=mean, factor=2)
    expected = loop(q, k, attn.eval_index, attn.n_top, causal=causal, mean=mean)
    assert_realises(attn, q, k, v, expected)


@pytest.mark.parametrize("sampling", ["shared", "per_query", "lse"])
@pytest.mark.parametrize("causal_selection", [False, True])
@pytest.mark.parametrize("context", ["mean", "cumsum"])
def test_equals_the_formula_when_causal(sampling, causal_selection, context):
    q, k, v = draw(SELF[2])
    options = {"causal_selection": causal_selection, "context": context}
    attn = make(SELF[2], causal=True, sampling=sampling, **options)
    assert_realises(attn, q, k, v, loop(q, k, attn.eval_index, attn.n_top, causal=True, **options))


@pytest.mark.parametrize("causal_selection", [False, True])
@pytest.mark.parametrize("sampling", ["shared", "per_query", "all", "lse"])
@pytest.mark.parametrize("mean", ["sample", "zero_fill"])
@pytest.mark.parametrize(("sizes", "causal"), SHAPES)
def test_equals_the_formula_with_zeros_in_the_maximum(sizes, causal, sampling, mean, causal_selection):
    """Keys far from the queries, so that many a row's sampled products are all below 0."""
    q, k, v = draw(sizes)
    q, k = q + 0.4, k - 0.4
    options = {"causal_selection": causal_selection, "mean": mean, "zero_in_max": True}
    attn = make(sizes, causal=causal, sampling=sampling, **options)
    assert_realises(attn, q, k, v, loop(q, k, attn.eval_index, attn.n_top, causal=causal, **options))


@pytest.mark.parametrize(
    ("index", "causal", "expected"),
    [
        ([0, 2, 1], False, [True, True, True]),
        ([0, 2, 2], False, [False, False, False]),
        ([0, 2, 2], True, [True, False, False]),
        ([[0, 0, 0], [1, 0, 1], [2, 2, 1]], True, [True, True, False]),
    ],
)
def test_which_rows_have_all_their_keys_sampled(index, causal, expected):
    assert measurement.fully_sampled(torch.tensor(index), 3, 3, causal=causal).tolist() == expected


@pytest.mark.parametrize("products_up_to", [0, 2048])
@pytest.mark.parametrize("max_elements", [1, 10**6])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("zero_in_max", [False, True])
@pytest.mark.parametrize("index", ["shared", "per_query", "lse"])
def test_measures_in_chunks(monkeypatch, products_up_to, max_elements, masked, zero_in_max, index):
    monkeypatch.setattr(measurement, "PRODUCTS_UP_TO", products_up_to)
    monkeypatch.setattr(measurement, "CACHED_ELEMENTS", max_elements)
    q, k, _ = draw((2, 3, 31, 31, 5, 4))
    drawn = {"shared": torch.tensor([3, 30, 17]), "per_query": torch.randint(31, (31, 4)), "lse": None}[index]
    measure = sparsity(q, k, sample_index=drawn, causal=masked, mean="sample", zero_in_max=zero_in_max)
    expected = torch.from_numpy(measures(q, k, drawn, masked=masked, mean="sample", zero_in_max=zero_in_max))
    torch.testing.assert_close(measure, expected, rtol=1e-12, atol=1e-12)
    if masked and index == "shared":  # no sampled key yet
        assert (measure[:, :, :3] == (0 if zero_in_max else -math.inf)).all()


PAPER = {"factor": 3, "sample_factor": 1, "rounding": "ln"}


@pytest.mark.parametrize(
    ("length", "n_keys", "params", "counts"),
    [
        *((length, 7, {"factor": 5}, (count, 7)) for length, count in ((1, 1), (2, 2), (96, 25), (16384, 50))),
        (2, 7, {"factor": 1}, (1, 2)),
        # c ln L, rounded up once: 3 ln 96 = 13.7 where c ceil(ln L) is 15
        *((n, n, PAPER, counts) for n, counts in ((1, (1, 1)), (2, (2, 1)), (96, (14, 5)), (720, (20, 7)))),
        (96, 96, {"factor": 2, "sample_factor": 7}, (10, 35)),
    ],
)
def test_numbers_of_queries_and_of_sampled_keys(length, n_keys, params, counts):
    attn = ProbAttention(spec_of((1, 1, length, n_keys, 4, 4)), **params)
    assert (attn.n_top, attn.n_sample) == counts
    assert len(attn.eval_index) == counts[1]


def test_eval_keys_are_evenly_spaced():
    assert make((1, 1, 7, 31, 4, 4)).eval_index.tolist() == [0, 10, 20, 30]
    assert make((1, 1, 7, 31, 4, 4), sampling="all").eval_index.tolist() == list(range(31))


@pytest.mark.parametrize(
    ("sampling", "authors_draw"),
    [("per_query", lambda: torch.randint(31, (31, 4))), ("shared", lambda: torch.randperm(31)[:4])],
)
def test_training_draws_from_the_global_generator(sampling, authors_draw):
    q, k, v = draw(SELF[2])
    attn = make(SELF[2], sampling=sampling).train()
    torch.manual_seed(5)
    index = authors_draw()
    torch.manual_seed(5)
    torch.testing.assert_close(attn(q, k, v), loop(q, k, index, attn.n_top, causal=False) @ v, rtol=1e-11, atol=1e-11)
    assert not torch.equal(attn(q, k, v), attn(q, k, v))


def test_eval_draw_is_no_part_of_the_state():
    attn = make(SELF[2], sampling="per_query")
    assert attn.state_dict() == {}
    assert torch.equal(attn.eval_index, make(SELF[2], sampling="per_query").eval_index)


@pytest.mark.parametrize("causal_selection", [False, True])
def test_selection_scores_see_future_keys_only_without_causal_selection(causal_selection):
    q, k, _ = draw(SELF[2])
    changed = torch.cat([k[:, :, :20], 9 - 4 * k[:, :, 20:]], dim=2)
    index = torch.tensor([0, 10, 20, 30])
    before, after = (sparsity(q, x, sample_index=index, causal=causal_selection, mean="sample") for x in (k, changed))
    assert torch.equal(before[:, :, :20], after[:, :, :20]) == causal_selection


@pytest.mark.parametrize("causal", [False, True])
def test_dropout_acts_on_the_active_rows_only(causal):
    q, k, _ = draw(SELF[2])
    attn = make(SELF[2], sampling="all", dropout=0.5, factor=2, causal=causal)
    exact = attn.weights(q, k)
    dropped = attn.train()(q, k, torch.eye(31, dtype=q.dtype).expand(*k.shape[:2], -1, -1))
    positive = exact > 0
    lazy = (exact == exact[..., :1]).logical_or(~positive).all(-1)
    lazy[:, :, 0] = False  # one key: the same whether lazy or active
    active = ~lazy
    active[:, :, 0] = False
    torch.testing.assert_close(dropped[lazy], exact[lazy], rtol=1e-11, atol=1e-11)
    gone = dropped[active] == 0
    torch.testing.assert_close(dropped[active], torch.where(gone, 0, 2 * exact[active]), rtol=1e-11, atol=1e-11)
    assert 0.3 < gone[positive[active]].double().mean() < 0.7


def test_row_dropout_off_is_the_published_code():
    q, k, v = draw(SELF[2])
    attn = make(SELF[2], sampling="all", dropout=0.5, row_dropout=False)
    assert torch.equal(attn.train()(q, k, v), attn.eval()(q, k, v))


def test_runs_under_autocast():
    q, k, v = (x.float() for x in draw(SELF[2]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = make(SELF[2], causal=True)(q, k, v)
    torch.testing.assert_close(output.float(), make(SELF[2], causal=True)(q, k, v), rtol=0.05, atol=0.2)


@pytest.mark.parametrize("wrong", [{"mean": "sum"}, {"context": "last"}])
def test_the_function_refuses_too(wrong):
    q, k, v = draw(SELF[0])
    options = {"mean": "sample", "context": "mean"} | wrong
    with pytest.raises(ValueError, match="expected one of"):
        probsparse(q, k, v, sample_index=torch.arange(3), n_top=2, causal=False, causal_selection=True, **options)
