"""Losses, metrics, baselines and intervals of windows with gaps, against loops over what is observed."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scored import paths_of
from stores import one_series
from torch import Tensor

from informer.config.model import WindowSizes
from informer.config.training import LossConfig, LossKind
from informer.data.windows import Windows
from informer.members.baselines import SeasonalNaive, fit_ridge
from informer.scoring.intervals import Variation, differences
from informer.scoring.scores import Scores
from informer.training.optim import build_loss, observed_share

QUANTILES = (0.1, 0.5, 0.9)


def holed(shape: tuple[int, ...], share: float, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=draw)
    return values.masked_fill(torch.rand(shape, generator=draw) < share, torch.nan)


def cells(actual: Tensor) -> list[tuple[int, ...]]:
    """Where something is observed."""
    return [place for place in np.ndindex(*actual.shape) if not actual[place].isnan()]


@pytest.mark.parametrize("kind", [LossKind.mse, LossKind.mae, LossKind.huber, LossKind.quantile])
def test_losses_are_means_over_what_is_observed(kind: LossKind) -> None:
    """Red if a missing value counts in the sum, in the number, or in a gradient."""
    actual = holed((4, 5, 3), 0.4)
    config = LossConfig(kind=kind, quantiles=list(QUANTILES) if kind is LossKind.quantile else [])
    draw = torch.Generator().manual_seed(7)  # not the seed of `actual`: equal values have no gradient
    output = torch.randn(4, 5, 3, *([3] if config.quantiles else []), generator=draw, requires_grad=True)
    losses = build_loss(config, has_gaps=True)(output, actual)
    total, known = 0.0, cells(actual)
    for place in known:
        value, given = actual[place].item(), output[place].tolist()
        if kind is LossKind.quantile:
            errors = [value - one for one in given]
            total += sum(max(q * e, (q - 1) * e) for q, e in zip(QUANTILES, errors, strict=True)) / 3
        else:
            error = abs(given - value)
            huber = error**2 / 2 if error < 1 else error - 0.5
            total += {LossKind.mse: error**2, LossKind.mae: error, LossKind.huber: huber}[kind]
    assert losses.item() == pytest.approx(total / len(known), rel=1e-5)
    losses.backward()
    assert output.grad is not None
    assert ((output.grad != 0).reshape(4, 5, 3, -1).any(-1) == ~actual.isnan()).all()
    assert observed_share(actual) == pytest.approx(len(known) / 15)


def test_losses_of_complete_values_are_what_they_were() -> None:
    output, actual = torch.randn(4, 5, 3), torch.randn(4, 5, 3)
    assert build_loss(LossConfig(), has_gaps=True)(output, actual) == F.mse_loss(output, actual)


def windows_with_gaps(share: float, n: int = 120) -> Windows:
    t = np.arange(n)
    rng = np.random.default_rng(3)
    values = np.stack([np.sin(2 * np.pi * t / 4), np.cos(2 * np.pi * t / 4)], axis=1) + 0.1 * rng.normal(size=(n, 2))
    values[rng.random((n, 2)) < share] = np.nan
    made = one_series(torch.from_numpy(values).float())
    store = type(made)(**{name: getattr(made, name) for name in made.__slots__} | {"has_gaps": True})
    sizes = WindowSizes(seq_len=10, label_len=0, pred_len=6)
    return Windows(store, starts=torch.arange(n - 16), sizes=sizes, targets=[0, 1])


@pytest.mark.parametrize("seasons", [(4, 4), (4, 1), (3, 10)])
def test_the_naive_repeats_the_last_observed_value_of_the_season(seasons: tuple[int, int]) -> None:
    batch = windows_with_gaps(0.5).batch(torch.arange(100))
    baseline = SeasonalNaive(seasons, [0, 1])(batch)
    assert not baseline.isnan().any()
    for b, step, column in np.ndindex(*baseline.shape):
        history, season = batch.enc_x[b, :, column].tolist(), seasons[column]
        place = 10 - season + step % season
        same = [history[row] for row in range(place, -1, -season) if not math.isnan(history[row])]
        anything = [value for value in reversed(history) if not math.isnan(value)]
        assert baseline[b, step, column].item() == (same or anything or [0.0])[0]


def test_ridge_is_nearly_that_of_complete_rows() -> None:
    """A wave is forecast with a fifth of its rows missing. Red if missing rows of the future count as zeros."""
    ridge = fit_ridge(windows_with_gaps(0.2, 1200), windows_with_gaps(0.2), [0, 1])
    complete = windows_with_gaps(0.0, 400).batch(torch.arange(300))
    assert (ridge(complete) - complete.target).square().mean() < 0.04  # the noise is 0.01, the variance 0.5


def test_differences_are_of_observed_pairs() -> None:
    history = holed((3, 9, 2), 0.4)
    history[0, :, 0] = torch.nan
    changes = differences(history, 2)
    assert changes[0, 0].isnan()
    assert Variation(2, 1.0, torch.ones(2), torch.ones(2)).unit(changes)[0, 0, 0] == 1
    for b, column in np.ndindex(3, 2):
        own = history[b, :, column].tolist()
        pairs = [abs(x - y) for x, y in zip(own[2:], own[:-2], strict=True) if not math.isnan(x - y)]
        if pairs:
            assert changes[b, column].item() == pytest.approx(sum(pairs) / len(pairs))


def test_coverage_counts_what_is_observed() -> None:
    actual, output = holed((9, 4, 2), 0.4), torch.randn(9, 4, 2, 3).sort(dim=-1).values
    scores = Scores(["0", "1"])
    for part in (slice(0, 5), slice(5, 9)):
        levels = dict(zip(QUANTILES, output[part].numpy().transpose(3, 0, 1, 2), strict=True))
        bands = {"q10": levels[0.1], "q90": levels[0.9]}
        scores.add("", paths_of(levels[0.5], actual[part].numpy(), levels=levels, bands=bands))
    known = cells(actual)
    inside = [output[p][0] <= actual[p] <= output[p][2] for p in known]
    widths = [(output[p][2] - output[p][0]).item() for p in known]
    wanted = {"coverage": 100 * np.mean(inside), "width": np.mean(widths)}
    assert scores.overall("", "q10_q90") == pytest.approx(wanted, rel=1e-5)
    second = [one for one, p in zip(inside, known, strict=True) if p[2] == 1]
    assert scores.values("", "q10_q90", "column")["coverage"][1] == pytest.approx(100 * np.mean(second))
    losses = [max(0.9 * e, -0.1 * e) for e in ((actual[p] - output[p][2]).item() for p in known)]
    assert scores.overall("", "q90")["pinball"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert scores.intervals == ["q10_q90"]
    assert scores.quantiles == ["q10", "q50", "q90"]
