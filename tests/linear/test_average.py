"""Means of linear forecasts, chosen from products of moments: against the errors of the forecasts themselves."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch
from entry_points import SMALL
from test_closed_form import forecast_of
from test_configs import composed

from informer.build import build_data
from informer.data.dataset import Data
from informer.linear.fit import BLOCKS, LinearFit, Products, best_mean, candidates_of, prepare, products_of
from informer.linear.moments import in_order
from informer.linear.select import ChosenMap, folds
from informer.linear.settings import MapSettings, in_words


@pytest.fixture(scope="module")
def data() -> Data:
    return build_data(composed("dataset=sample", "model=linear", *SMALL[1:]), torch.device("cpu"))


@pytest.fixture(scope="module")
def fit(data: Data) -> LinearFit:
    positions = data.columns.positions(data.targets)
    return prepare(
        data.train, data.val, positions, frequency=data.frequency, calendar=data.calendar,
        others=range(len(data.inputs)), lookbacks=[6, 12, 24],
    )  # fmt: skip


@pytest.fixture(scope="module")
def chosen_settings(fit: LinearFit) -> tuple[ChosenMap, MapSettings]:
    return fit.choose()


def test_the_error_of_a_mean_is_that_of_its_forecasts(
    data: Data, fit: LinearFit, chosen_settings: tuple[ChosenMap, MapSettings]
) -> None:
    """Each block by the mean of maps fitted on the others. Red if a fold, a column or a term is left out."""
    choice, best = chosen_settings
    chosen = [best, *candidates_of(choice, best)]
    chosen = [one for one in chosen if choice.fits(one)][:6]
    losses = products_of(choice.validation, chosen).losses(np.array([[0.5, 0, 0.25, 0, 0.25, 0]]))
    errors = []
    for block in folds(in_order([*fit.train, *fit.val]), BLOCKS, data.sizes.pred_len):
        averaged = [replace(chosen[place], weight=weight) for place, weight in ((0, 2.0), (2, 1.0), (4, 1.0))]
        model = fit.fit(averaged, block.fitted)
        starts = torch.from_numpy(np.concatenate([np.arange(run.first, run.stop) for run in block.held]))
        batch = data.train.at(starts).batch(torch.arange(len(starts)))
        forecast = forecast_of(model, fit.positions, batch.enc_x, batch.enc_mark[:, -1])
        square = (forecast - batch.target).square().mean(dim=(0, 1))
        errors.append(float(square.sqrt().mean()))
    assert losses == pytest.approx([np.mean(errors)], rel=1e-3)


def test_no_worse_than_the_best_by_itself(chosen_settings: tuple[ChosenMap, MapSettings]) -> None:
    choice, best = chosen_settings
    kept, loss = best_mean(choice, best, 3)
    assert 1 <= len(kept) <= 3
    own, single = best_mean(choice, best, 1)
    assert (len(own), single >= loss) == (1, True)


@pytest.mark.parametrize("n", [1, 4])
def test_lookbacks_that_take_too_long_are_no_candidates(n: int, fit: LinearFit) -> None:
    """The clock goes on by a second when it is read: so the longest lookback takes one per column, 12 rows 0.36."""
    fit = replace(fit, positions=fit.positions[:n])
    choice, best = fit.choose(count(10_000, -1).__next__, most_seconds=0.5 * n)
    assert choice.lookbacks == [6, 12]
    assert best.lookback <= 12


def products(errors: np.ndarray, weights: Sequence[float] = (1.0,)) -> Products:
    """Of errors of candidates, [channels candidates rows], in one fold."""
    return Products((errors @ errors.transpose(0, 2, 1) / errors.shape[2])[None], np.array(weights))


def test_errors_that_cancel() -> None:
    """In proportion 1 to 3 the first and the third cancel, and the second is larger than both."""
    noise = np.random.default_rng(0).normal(size=(2, 400))
    errors = np.stack([0.9 * noise[0], noise[1], -0.3 * noise[0]])[None]
    weights, loss = products(errors).best(3)
    assert weights.tolist() == [0.25, 0, 0.75]
    assert loss == pytest.approx(0, abs=1e-6)
    assert products(errors).best(1)[0].tolist() == [0, 0, 1]


def test_no_more_than_asked_for() -> None:
    """Independent errors of one size: the mean of all is best."""
    errors = np.random.default_rng(0).normal(size=(1, 4, 20_000))
    weights, loss = products(errors).best(4)
    assert weights == pytest.approx([0.25] * 4, abs=1 / 16)
    assert loss == pytest.approx(float(np.sqrt(((weights @ errors[0]) ** 2).mean())))
    assert np.count_nonzero(products(errors).best(3)[0]) == 3


def test_a_volatile_series_does_not_decide_for_all() -> None:
    """Nine series favour the first forecast by half, one the second by a tenth, with errors of ten times the size. Red
    if the squared errors are added up."""
    errors = np.ones((10, 2, 50))
    errors[:9, 0] = 0.5
    errors[9] = np.array([10.0, 9.0])[:, None]
    averages = products(errors, [1.0] * 10)
    squares = (errors**2).mean(axis=(0, 2))
    assert squares.argmin() == 1
    assert averages.best(1)[0].tolist() == [1, 0]
    expected = np.sqrt((errors**2).mean(axis=2)).mean(axis=0)
    assert averages.losses(np.eye(2)) == pytest.approx(expected)


def test_a_series_without_windows_in_a_block_does_not_count() -> None:
    errors = np.stack([np.full((2, 2), np.nan), np.array([[1.0, 0.0], [0.0, 4.0]])])
    assert Products(errors[None], np.array([1.0, 1.0])).losses(np.eye(2)) == pytest.approx([1.0, 2.0])


def test_what_others_have_otherwise_is_said() -> None:
    first = MapSettings(lookback=48, weight=0.75)
    other = MapSettings(lookback=96, last=True, own=10.0, naive=0.25, weight=0.25)
    assert other.unlike(first) == "96 rows minus their last value own maps (penalty 10) with 25% of the seasonal naive"
    assert in_words([first, other]) == f"{first.in_words}; averaged (75%) with: {other.unlike(first)} (25%)"
