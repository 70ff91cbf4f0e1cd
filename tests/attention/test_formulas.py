"""Every mechanism against its formula (`formulas`): its dense matrix, its outputs, and its outputs in small pieces."""

import pytest
import torch
from formulas import FORMULAS
from mechanisms import by_steps, drawn, made, matrix
from torch import Tensor

from informer.checkpoint import attention_names
from informer.networks import Attention
from informer.networks.ops import fast

SELF, CROSS = [(1, 1), (2, 2), (7, 7), (53, 53)], [(5, 9), (13, 2), (1, 31)]
LONG, LONGER = [(131, 131)], [(263, 263)]
"""Lengths of queries and keys; 131 are three chunks of the linear-time kernels, at 263 log_sparse gathers its keys."""

HUGE = 10**12
CASES: list[tuple[str, dict, list[tuple[int, int]]]] = [
    *(("full", {"scale": scale}, [*SELF, *CROSS]) for scale in (None, 0.3)),
    *((name, {}, [*SELF, *CROSS]) for name in ("dot", "additive", "bilinear", "relu", "synthesizer")),
    *((name, {}, [*SELF, *CROSS]) for name in ("synthesizer_dense", "hard")),
    *(("topk", {"k": k}, [*SELF, *CROSS]) for k in (1, 3)),
    ("auto", {"crossover": 40, "factor": 1}, [(39, 39), (40, 40), (50, 39), (39, 50), (50, 40)]),
    ("auto", {}, [(255, 255), (256, 256)]),
    *(("linear", {"feature_map": name}, [*SELF, *CROSS, *LONG]) for name in ("elu", "relu", "exp", "softmax")),
    *(("efficient", {"normaliser": name}, [*SELF, *CROSS, *LONG]) for name in ("feature", "row")),
    ("taylor", {}, [*SELF, *CROSS, *LONG]),
    *(("performer", params, [*SELF, *CROSS, *LONG]) for params in ({}, {"n_features": 1})),
    ("performer_trig", {"n_features": 7, "orthogonal": False, "radii": "quantile"}, [*SELF, *CROSS, *LONG]),
    *(("em", {"n_bases": 3} | more, [*SELF, *CROSS]) for more in ({}, {"n_steps": 5}, {"unit_bases": False})),
    *(("vq", {"n_codes": n}, [*SELF, *CROSS, *LONG]) for n in (1, 5, 200)),
    *(("autocorrelation", {"factor": c}, [*SELF, (30, 30)]) for c in (0.1, 1.0, 90.0)),
    *(("fourier", {"n_modes": n, "seed": 1}, [*SELF, *CROSS]) for n in (1, 5, 64)),
    ("gated_delta", {}, [*SELF, *CROSS, *LONG]),
    *(("linformer", {"proj_len": n, "share_kv": n == 4}, [*SELF, *CROSS]) for n in (1, 4, 64)),
    *(("pooled", {"ratio": ratio, "kind": kind}, [*SELF, *CROSS]) for ratio in (1, 3, 40) for kind in ("avg", "conv")),
    *(("pooled", {"pyramid": counts}, [*SELF, *CROSS]) for counts in ([1, 3, 6, 8], [2, 40])),
    *(("truncated", {"window": window}, SELF) for window in (0, 6, HUGE)),
    *(("log_sparse", {"window": window}, [*SELF, *LONGER]) for window in (0, 6, HUGE)),
    *(
        ("longformer", {"window": window, "dilation": dilation, "n_global": n}, SELF)
        for window, dilation in ((5, 1), (0, 2), (8, 3), (HUGE, 1), (6, HUGE), (7, [4, 1]))
        for n in (0, 3)
    ),
    *(("longformer", {"window": 6, "global_positions": given}, [(97, 97)]) for given in ([0, -1], [-3, 5, 94, 5], [])),
    ("longformer", {"window": [3, 6]}, SELF),
    *((name, {}, [(97, 97)]) for name in ("sparse_strided", "reformer")),
    *(
        (f"sparse_{kind}", {"stride": stride, "c": c, "heads": heads}, SELF)
        for kind in ("strided", "fixed")
        for stride, c in ((1, 1), (5, 2), (5, 9), (HUGE, 3))
        for heads in ("split", "merge", "alternate")
    ),
    *(
        (name, {"window": window, "n_global": n, "n_random": random}, SELF)
        for name in ("bigbird", "bigbird_etc")
        for window, n, random in ((0, 0, 1), (5, 2, 3), (16, 1, 0), (4, 3, 200), (HUGE, 2, 4))
    ),
    ("bigbird", {"window": 4, "global_positions": [2, -2], "n_random": 60}, [(97, 97)]),
    *(("etc", {"radius": radius, "n_global": n}, SELF) for radius in (0, 2, HUGE) for n in (0, 4)),
    *(
        ("reformer", {"n_buckets": n, "n_hashes": hashes}, SELF)
        for n, hashes in ((1, 1), (2, 1), (4, 3), (40, 4), (300, 2))
    ),
    *(
        (
            "prob",
            {"factor": 2, "sampling": sampling, "mean": mean, "zero_in_max": zeros, "causal_selection": own},
            [(1, 1), (7, 7), (31, 31), *CROSS],
        )
        for sampling in ("shared", "per_query", "all", "lse")
        for mean, zeros, own in (("sample", False, True), ("zero_fill", True, True), ("zero_fill", False, False))
    ),
    *(("prob", {"factor": 1, "sampling": sampling, "context": "cumsum"}, [(31, 31)]) for sampling in ("shared", "lse")),
    ("prob", {"sampling": "per_query"}, [(3, 2100)]),  # keys are gathered for each query
    ("prob", {"factor": 3, "sample_factor": 1, "rounding": "ln"}, [(31, 31)]),
]  # fmt: skip


def check(name: str, attn: Attention, params: dict, q: Tensor, k: Tensor, v: Tensor) -> None:
    """The dense matrix and the outputs are those of the formula, also in the smallest pieces and row by row."""
    expected = matrix(name, attn, params, q, k)
    close = {"rtol": 1e-10, "atol": 1e-10 * max(1.0, float(expected.abs().max()))}  # normalisers of sines come near 0
    torch.testing.assert_close(attn.weights(q, k), expected, **close)
    torch.testing.assert_close(attn(q, k, v), expected @ v, **close)
    with fast.forms(whole=1, cached=1):
        torch.testing.assert_close(attn(q, k, v), expected @ v, **close)
    if attn.spec.causal and hasattr(attn, "step"):
        torch.testing.assert_close(by_steps(attn, q, k, v), expected @ v, **close)


def test_every_name_has_a_formula_and_a_case() -> None:
    """Red if a mechanism is added without either."""
    assert set(FORMULAS) == {name for name, *_ in CASES} == set(attention_names())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "params", "lengths"), CASES, ids=[f"{name}-{params}" for name, params, _ in CASES])
def test_equals_its_formula(name: str, params: dict, lengths: list[tuple[int, int]], causal: bool) -> None:
    """Red if a pair is left out or counted twice, a scale or a normaliser is off, or a piece is put elsewhere."""
    for pair in lengths:
        if causal and pair[0] != pair[1]:
            continue
        for layer in (0, 1) if "alternate" in params.values() or isinstance(params.get("window"), list) else (0,):
            try:
                attn = made(name, params, pair, causal=causal, layer_index=layer)
            except ValueError as error:
                assert causal and "has no causal form" in str(error)  # noqa: PT017, PT018
                return
            check(name, attn, params, *drawn(pair))


@pytest.mark.parametrize(
    ("name", "params", "change"),
    [
        ("relu", {}, lambda q, k: (1e-3 * q, k)),  # the epsilon is as large as the sums
        ("linear", {}, lambda q, k: (27 * q, k)),
        ("linear", {"feature_map": "exp"}, lambda q, k: (q, k + 5 * torch.arange(131)[:, None] - 5 * 131)),
        *(("efficient", {}, lambda q, k, s=s: (q, k + s * torch.arange(131)[:, None])) for s in (-20.0, 0.6, 20.0)),
        ("efficient", {}, lambda q, k: (q / 300, 300 * k)),
        ("taylor", {}, lambda q, k: (q * (torch.arange(131)[:, None] != 6), k * (torch.arange(131)[:, None] != 3))),
        *(
            (name, {}, lambda q, k, f=f: (q, k * torch.linspace(0.1, 60, 131)[:, None].flip(0 if f else 1)))
            for name in ("performer", "performer_trig")
            for f in (False, True)
        ),
        ("vq", {"n_codes": 5}, lambda q, k: (300 * q, k)),
        *(
            ("reformer", {"n_buckets": 10}, lambda q, k, a=a, b=b: (a * q + 1, b * k + 1))
            for a, b in ((0.01, 1), (1, 0.01), (0.01, 0.01))
        ),
    ],
)  # fmt: skip
def test_equals_its_formula_for_unusual_inputs(name, params, change) -> None:
    """Red without a unit for features that grow like exp, or if a crowded bucket loses keys."""
    q, k, v = drawn((131, 131))
    q, k = (x.double() for x in change(q, k))
    check(name, made(name, params, (131, 131), causal=True), params, q, k, v)
