"""Moments, maps and cross-validation against least squares on materialised windows; what is never read."""

import itertools
from dataclasses import replace
from math import inf, nan

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.linear_model import Ridge

from informer.config.data import Calendar
from informer.config.model import CalendarEmbed
from informer.data.calendar import calendar_marks, mark_fields
from informer.data.windows import DataUnits, Store, Windows, WindowSizes
from informer.linear.fit import prepare
from informer.linear.moments import Moments, MomentSource, WindowRun, joined, runs_of, window_products
from informer.linear.select import SHARED, CrossValidation, FoldMoments, fit_own, fit_shared, fold_moments, folds
from informer.linear.settings import Group, MapSettings, OriginFeatures, cycles_of
from informer.linear.solve import Layout, blended, normal_equations
from informer.read.frequency import Frequency

HOURLY = Frequency.parse("h")
FIELDS = mark_fields(HOURLY, Calendar(CalendarEmbed.timeF))
SEQ, PRED, COLUMNS = 9, 4, 3
HOW = {"frequency": HOURLY, "calendar": Calendar(CalendarEmbed.timeF), "others": range(COLUMNS)}


def store(rows=(150, 130), seed=0):
    """Random walks whose columns depend on each other, with hourly marks."""
    rng = np.random.default_rng(seed)
    values = np.concatenate(
        [rng.normal(size=(n, COLUMNS)).cumsum(axis=0) * 0.3 + rng.normal(size=(n, COLUMNS)) for n in rows]
    )
    stamps = pd.date_range("2021-03-01 05:00", periods=sum(rows), freq="h")
    first = torch.tensor([0, *np.cumsum(rows)[:-1]])
    units = torch.ones(len(rows), COLUMNS, dtype=torch.float64)
    return Store(
        values=torch.from_numpy(values).float(),
        marks=torch.from_numpy(calendar_marks(stamps, HOURLY, Calendar(CalendarEmbed.timeF))),
        first_rows=first,
        mark_shift=0 * first,
        units=DataUnits(0 * units, units),
        numbers=torch.arange(len(rows)),
    )


def windows_of(rows, starts, **sizes):
    sizes = WindowSizes(**({"seq_len": SEQ, "label_len": 0, "pred_len": PRED} | sizes))
    return Windows(rows, starts=torch.as_tensor(starts).long(), sizes=sizes, targets=range(COLUMNS))


def forecast_of(fitted, positions, history, mark, series=None):
    """A `LinearForecast` window by window; of several series map 0 is shared, and series -1 has no other."""
    read = history[:, :, fitted.features.columns].double()
    recent = read[:, read.shape[1] - fitted.features.recent :] - read.mean(dim=1, keepdim=True)
    features = fitted.features.compose(recent, mark.double())
    weight, level, extra = (part.double() for part in (fitted.weight, fitted.level, fitted.extra))
    forecast = torch.zeros(len(history), weight.shape[2], len(positions), dtype=torch.float64)
    for window, rows in enumerate(history.double()):
        number = -1 if series is None else int(series[window])
        for place, column in enumerate(positions):
            own = 1 + number * len(positions) + place if number >= 0 else 0
            i = own if fitted.by_series else place % len(weight)
            last, mean = rows[-1, column], rows[:, column].mean()
            change = (rows[:, column] - last) @ weight[i] + mean * level[i] + features[window] @ extra[i]
            forecast[window, :, place] = last + change
    return forecast


FEATURES = OriginFeatures(tuple(range(COLUMNS)), 3, ("day",), FIELDS, CalendarEmbed.timeF)
LAYOUT = Layout(SEQ, PRED, FEATURES, 24)


def design(batch, column, strengths, recent=3):
    """Inputs, futures and penalties of one column, written out from what a user would say."""
    x = batch.enc_x.double().numpy()
    own = x[:, SEQ - strengths.lookback :, column]
    reference = own[:, -1:] if strengths.last else own.mean(axis=1, keepdims=True)
    parts, cost = [own - reference], []
    age = np.maximum(np.arange(strengths.lookback, 0, -1) / 24, 0.2)
    cost.append(age**strengths.taper * (parts[0] ** 2).mean())

    def add(part, penalty, ages=1.0):
        if penalty < inf:
            parts.append(part)
            cost.append(penalty * ages * (part**2).mean(axis=0))

    add(x[:, :, column].mean(axis=1, keepdims=True), strengths.penalty(Group.level))
    add(np.ones((len(x), 1)), strengths.penalty(Group.bias))
    hour = (batch.enc_mark[:, -1, FIELDS.index("hour")].double().numpy() + 0.5) * 23
    turns = 2 * np.pi * np.arange(1, 7) * hour[:, None] / 24
    add(np.hstack([np.cos(turns), np.sin(turns)]), strengths.penalty(Group.day))
    for back in range(recent, 0, -1):
        others = [i for i in range(COLUMNS) if i != column]
        add((x[:, -back] - x.mean(axis=1))[:, others], strengths.penalty(Group.recent), back)
    y = batch.target.double().numpy()[:, :, column] - reference
    penalties = np.concatenate(cost)
    # an input that is always zero: any penalty keeps its weight at the prior
    return np.hstack(parts), y, np.where(penalties < 1e-20, 1.0, penalties)


def least_squares(x, y, penalty, prior):
    """argmin |x w - y|^2 + sum penalty (w - prior)^2, as rows."""
    root = np.sqrt(penalty)[:, None]
    return np.linalg.lstsq(np.vstack([x, np.diag(root[:, 0])]), np.vstack([y, root * prior]), rcond=None)[0]


EVERYTHING = {Group.bias: 0.5, Group.day: 3.0, Group.level: 2.0, Group.recent: 7.0}
SETTINGS = [
    MapSettings(lookback=SEQ, shared=20.0, own=5.0, taper=1.0, groups=EVERYTHING),
    MapSettings(lookback=5, last=True, shared=3.0, own=50.0, taper=0.0, groups={Group.bias: 1.0, Group.day: 3.0}),
    MapSettings(lookback=7, shared=3.0, own=inf, taper=2.0, groups={Group.bias: 1.0, Group.level: 3.0}),
]


def explicit_maps(windows_by_column, strengths, recent=3):
    """Shared map, then the map of each column, by least squares on rows."""
    alone = MapSettings(
        **{name: getattr(strengths, name) for name in ("lookback", "last", "shared", "own", "taper")},
        groups={group: penalty for group, penalty in strengths.groups.items() if group is not Group.recent},
    )
    rows = [design(batch, column, alone) for batch, column in windows_by_column]
    x, y = (np.vstack(part) for part in list(zip(*rows, strict=True))[:2])
    penalty = np.concatenate([rows[0][2][: strengths.lookback] * 0, rows[0][2][strengths.lookback :] * 0])
    age = np.maximum(np.arange(strengths.lookback, 0, -1) / 24, 0.2)
    penalty[: strengths.lookback] = strengths.shared * age**strengths.taper * (x[:, : strengths.lookback] ** 2).mean()
    costs = [strengths.penalty(g) for g in (Group.level, Group.bias) if strengths.penalty(g) < inf]
    costs += [strengths.penalty(Group.day)] * 12 if strengths.penalty(Group.day) < inf else []
    penalty[strengths.lookback :] = costs * (x[:, strengths.lookback :] ** 2).mean(axis=0)
    shared = least_squares(x, y, penalty, np.zeros((x.shape[1], PRED)))
    own = []
    for batch, column in windows_by_column:
        x, y, penalty = design(batch, column, strengths, recent)
        prior = np.vstack([shared, np.zeros((x.shape[1] - len(shared), PRED))])
        if strengths.own == inf:
            own.append(prior)
            continue
        penalty[: strengths.lookback] *= strengths.own
        own.append(least_squares(x, y, penalty, prior))
    return shared, own


def everything(windows):
    return next(windows.batches(len(windows)))


def starts_in(runs):
    return [row for run in runs for row in range(run.first, run.stop)]


@pytest.mark.parametrize(
    ("rows", "n", "stride"),
    [
        *((rows, n, 1) for rows, n in ((40, 7), (12, 7), (7, 7), (9, 1))),
        *((90, 7, 2), (91, 7, 5), (60, 4, 8), (70, 5, 40), (9, 7, 3), (12, 2, 5)),
    ],
)
def test_window_products_are_those_of_the_materialised_windows(rows, n, stride):
    values, kept = np.random.default_rng(rows).normal(size=rows), np.array([0, n - 1])
    windows = sliding_window_view(values, n)[::stride]
    products = windows.T @ windows
    np.testing.assert_allclose(window_products(values, n, stride=stride), products, atol=1e-12)
    found = window_products(values, n, kept, stride=stride)
    np.testing.assert_allclose(found, products[np.ix_(kept, kept)], atol=1e-12)


@pytest.mark.parametrize("few", [0, 99])
def test_products_with_features_are_those_of_the_materialised_ones(few, monkeypatch):
    """Two series: one of more rows than a Fourier transform takes, one of fewer windows than rows of a window."""
    monkeypatch.setattr("informer.linear.moments.FEW", few)  # Fourier transforms, or matrix products
    data = store((20_000, 17))
    runs = runs_of(windows_of(data, [*range(19_000), *range(19_100, 19_900), 20_000, 20_001]))
    source = MomentSource(data, SEQ, PRED, FEATURES)
    e = np.concatenate([source._features_of(run) for run in runs])
    n = SEQ + PRED
    for column in range(COLUMNS):
        rows = data.values[:, column].double().numpy()
        windows = np.concatenate([sliding_window_view(rows[run.first : run.stop + n - 1], n) for run in runs])
        every = np.hstack([windows, e])
        moments = source.of(column, runs)
        np.testing.assert_allclose(moments.products, every.T @ every, rtol=1e-9, atol=1e-7)
        assert moments.windows == len(every)


@pytest.mark.parametrize("recent", [0, 2])
@pytest.mark.parametrize("gaps", [False, True])
def test_pooled_moments_are_the_weighted_sum_of_those_of_each_series_and_column(recent, gaps, monkeypatch):
    """Series of unlike lengths, some longer than a window, in batches of a few; red when a window or weight is lost."""
    monkeypatch.setattr("informer.linear.moments._BATCH", 200)
    data = store((40, 40, 33, 90))
    if gaps:
        data.values[45, 1] = nan
        data = replace(data, has_gaps=True)
    features = OriginFeatures(tuple(range(COLUMNS)), recent, ("day",), FIELDS, CalendarEmbed.timeF)
    source = MomentSource(data, SEQ, PRED, features, np.array([0, 3]))
    runs = runs_of(windows_of(data, [*range(20), 25, *range(40, 67), *range(80, 100), *range(113, 190)]))
    columns, weights = [2, 1], np.random.default_rng(0).uniform(1, 2, size=(4, 2))
    each = [
        source.of(column, own).times(weights[series, place])
        for series in range(4)
        for own in [source.of_series(runs, series)]
        for place, column in enumerate(columns)
    ]
    expected, found = sum(each[1:], each[0]), source.pooled(runs, columns, weights)
    np.testing.assert_allclose(found.products, expected.products, rtol=1e-12, atol=1e-10)
    assert found.windows == pytest.approx(expected.windows)
    assert (found.observed is None) == (not gaps)


@pytest.mark.parametrize("rows", [(60, 50, 9, 70), (400,)])
def test_folds_hold_out_the_blocks_of_each_series(rows):
    """Compared with a loop over series; the third has fewer windows than there are blocks."""
    data, n_blocks, firsts = store(rows), 5, np.cumsum([0, *rows])
    kept = [[start for start in range(n - 5) if start not in (20, 21)] for n in rows]
    starts = [start + int(first) for each, first in zip(kept, firsts, strict=False) for start in each]
    found = folds(runs_of(windows_of(data, starts)), n_blocks, PRED)
    for i, fold in enumerate(found):
        held, near = [], []
        for each, first in zip(kept, firsts, strict=False):
            begin, stop = (round(len(each) * j / n_blocks) for j in (i, i + 1))
            block = [start + int(first) for start in each[begin:stop]]
            held += block
            near += [
                start + int(first)
                for start in each
                if block and block[0] - PRED < start + first < block[-1] + PRED and start + first not in block
            ]
        assert (starts_in(fold.held), starts_in(fold.between)) == (held, near)
        assert starts_in(fold.fitted) == [start for start in starts if start not in {*held, *near}]


def test_maps_without_a_block_are_those_fitted_on_the_others(monkeypatch):
    """With and without room to keep the moments of every block."""
    data = store((400,))
    train, val = parts_of(data, range(250), range(260, 320))
    fit = prepare(train, val, range(COLUMNS), **HOW, chosen=[SETTINGS[0]])
    blocks = folds(joined(fit.train, fit.val), 5, PRED)
    for room in (10**9, 0):
        monkeypatch.setattr("informer.linear.fit.KEPT_BYTES", room)
        fits = list(fit.fit_without([SETTINGS[0]], blocks))
        assert [block for block, _ in fits] == blocks
        for block, forecast in fits:
            expected = fit.fit([SETTINGS[0]], block.fitted)
            for name in ("weight", "level", "extra"):
                np.testing.assert_allclose(getattr(forecast, name), getattr(expected, name), atol=1e-8)


def test_runs_end_at_a_gap_and_at_the_end_of_a_series():
    runs = runs_of(windows_of(store(), [3, 4, 5, 9, 137, 150, 151]))
    assert runs == [WindowRun(0, 3, 6), WindowRun(0, 9, 10), WindowRun(0, 137, 138), WindowRun(1, 150, 152)]


@pytest.mark.parametrize("strengths", SETTINGS)
def test_maps_equal_least_squares_on_rows(strengths):
    """Red when a penalty, a normalisation or the place of an input is another."""
    data = store()
    windows = windows_of(data, [*range(100), *range(110, 130)])
    source = MomentSource(data, SEQ, PRED, FEATURES)
    runs = runs_of(windows)
    moments = [source.of(column, runs) for column in range(COLUMNS)]
    shared = fit_shared(moments[0] + moments[1] + moments[2], LAYOUT, strengths)
    batch = everything(windows)
    expected, own = explicit_maps([(batch, column) for column in range(COLUMNS)], strengths)
    np.testing.assert_allclose(shared, expected, atol=1e-7)
    for column in range(COLUMNS):
        np.testing.assert_allclose(fit_own(moments[column], column, shared, LAYOUT, strengths), own[column], atol=1e-7)


@pytest.mark.parametrize("level", [None, 1.7, 1e-4, 1e-9, 0.0])
@pytest.mark.parametrize("strengths", SETTINGS)
def test_a_fold_from_moments_equals_refitting_without_the_block(strengths, level):
    """Also where a column varies in one block only: one value in all windows that are fitted leaves rounding errors,
    which are not fitted, and its map of the history is the shared one."""
    data = store((240,))
    values = data.values.clone()
    if level is not None:
        values[:, 2] = level
        values[150:165, 2] += torch.from_numpy(np.random.default_rng(1).normal(size=15)).float()
    data = replace(data, values=values)
    source = MomentSource(data, SEQ, PRED, FEATURES)

    def of(channel, runs):
        return source.of(channel[1], runs)

    channels = [(0, column) for column in range(COLUMNS)]
    parts = folds(runs_of(windows_of(data, range(225))), 3, PRED)
    _, made = fold_moments(parts, channels, of, lambda: inf)
    losses = CrossValidation(made, range(COLUMNS), LAYOUT).losses(strengths)
    for loss, fold in zip(losses, parts, strict=True):
        fitted, held = (everything(windows_of(data, starts_in(chosen))) for chosen in (fold.fitted, fold.held))
        own = explicit_maps([(fitted, column) for column in range(COLUMNS)], strengths)[1]
        rows = [design(held, column, strengths)[:2] for column in range(COLUMNS)]
        errors = [(x @ weight - y) ** 2 for weight, (x, y) in zip(own, rows, strict=True)]
        np.testing.assert_allclose(loss, np.mean(errors), rtol=1e-7 if level is None else 1e-6)


def test_a_column_that_is_constant_but_for_one_row_far_back():
    """The row is in the longest lookback window only. Its square is so large that the rounding errors of shorter ones
    are no longer small in comparison with their own squares, but it does not make them variable."""
    data = store((3000,))
    values = data.values.clone()
    values[:, 2] = -0.02
    values[2, 2] = 1e4
    data = replace(data, values=values)
    source, runs = MomentSource(data, SEQ, PRED, FEATURES), runs_of(windows_of(data, range(2900)))
    moments = source.of(2, runs)
    for last in (False, True):
        strengths = MapSettings(lookback=5, last=last, own=1e-3, groups={Group.bias: 1.0})
        features = LAYOUT.read(2, strengths)
        normal = normal_equations(moments, LAYOUT, strengths, features)
        assert not normal.gram[:5].any()
        shared = np.ones((6, PRED))
        np.testing.assert_allclose(fit_own(moments, 2, shared, LAYOUT, strengths)[:5], shared[:5])


def test_a_cycle_is_offered_when_the_marks_show_it_and_two_of_it_were_seen():
    assert cycles_of(FIELDS, 24 * 15, 24) == ("day", "week")
    assert cycles_of(FIELDS, 24 * 13, 24) == ("day",)
    assert cycles_of(FIELDS, 24 * 731, 24) == ("day", "week", "year")
    assert cycles_of(("weekday",), 1000, 1) == ("week",)
    assert cycles_of((), 24 * 731, 24) == ()


def parts_of(data, train, val):
    return windows_of(data, train), windows_of(data, val)


@pytest.mark.parametrize(("config", "n"), [({"average": 1}, 1), ({"chosen": SETTINGS[:2]}, 2)])
def test_the_maps_forecast_what_least_squares_forecasts(config, n):
    """The whole way: choose, fit, average, forecast a batch; no series is known, one map a column."""
    data = store((400,))
    train, val = parts_of(data, range(250), range(260, 320))
    fit = prepare(train, val, range(COLUMNS), **HOW, **config)
    fitted = fit.fit(fit.strengths()[0], fit.train)
    batch = everything(windows_of(data, range(330, 380)))
    rows = everything(train)
    expected = []
    for strengths in fit.strengths()[0]:
        own = explicit_maps([(rows, column) for column in range(COLUMNS)], strengths, SEQ)[1]
        columns = []
        for column in range(COLUMNS):
            x, _, _ = design(batch, column, strengths, SEQ)
            own_rows = batch.enc_x[:, SEQ - strengths.lookback :, column].double().numpy()
            reference = own_rows[:, -1:] if strengths.last else own_rows.mean(axis=1, keepdims=True)
            columns.append(x @ own[column] + reference)
        expected.append(np.stack(columns, axis=-1))
    assert len(expected) == n
    forecast = forecast_of(fitted, range(COLUMNS), batch.enc_x, batch.enc_mark[:, -1])
    np.testing.assert_allclose(forecast, np.mean(expected, axis=0), atol=1e-4)


def test_rows_after_validation_change_nothing():
    data, other = store((400,)), store((400,))
    other.values[340:] = 100.0
    parts = [parts_of(each, range(250), range(260, 320)) for each in (data, other)]
    fits = [prepare(*each, range(COLUMNS), **HOW) for each in parts]
    fitted = [fit.fit(fit.strengths()[0], joined(fit.train, fit.val)) for fit in fits]
    assert torch.equal(fitted[0].weight, fitted[1].weight)
    assert torch.equal(fitted[0].extra, fitted[1].extra)


def test_series_count_by_what_the_seasonal_naive_leaves_of_them():
    """Against scikit-learn's weighted ridge; red if a restless series, here four times as large, decides for all."""
    data = store((200, 200), seed=4)
    data.values[200:] *= 4.0
    train, val = parts_of(data, [*range(120), *range(200, 320)], [*range(130, 160), *range(330, 360)])
    fit = prepare(train, val, [1], frequency=HOURLY, others=range(COLUMNS), calendar=Calendar(CalendarEmbed.none))
    strengths = MapSettings(lookback=SEQ, own=inf, shared=2.0, taper=0.0)
    fitted = fit.fit([strengths], fit.train)
    values = data.values[:, 1].double().numpy()
    parts = [values[first : first + 119 + SEQ + PRED] for first in (0, 200)]
    weights = np.array([1 / np.mean((rows[24:] - rows[:-24]) ** 2) for rows in parts])
    weights = np.repeat(weights / weights.mean(), 120)
    windows = np.concatenate([sliding_window_view(rows, SEQ + PRED) for rows in parts])
    x = windows[:, :SEQ] - windows[:, :SEQ].mean(axis=1, keepdims=True)
    y = windows[:, SEQ:] - windows[:, :SEQ].mean(axis=1, keepdims=True)
    square = np.average((x**2).mean(axis=1), weights=weights)
    model = Ridge(2.0 * square, fit_intercept=False).fit(x, y, sample_weight=weights)
    batch = everything(windows_of(data, [170, 370]))
    rows = batch.enc_x[:, :, 1].double().numpy()
    mean = rows.mean(axis=1, keepdims=True)
    expected = model.predict(rows - mean) + mean
    forecast = forecast_of(fitted, [1], batch.enc_x, batch.enc_mark[:, -1])[:, :, 0]
    np.testing.assert_allclose(forecast, expected, atol=1e-4)


def test_a_share_of_the_seasonal_naive_is_mixed_in():
    """forecast = 3/4 of ridge's + 1/4 of the row one season (here: 5) before, by hand; also as the loss of a fold."""
    data = store((150,), seed=5)
    layout = replace(LAYOUT, repeated=5, kept=(0, 2, 3), steps=3)
    strengths = MapSettings(lookback=7, shared=2.0, own=inf, taper=0.0, naive=0.25)
    runs = runs_of(windows_of(data, range(100)))
    source = MomentSource(data, SEQ, PRED, FEATURES, np.array([0, 2, 3]))
    moments = source.of(0, runs)
    plain = fit_shared(moments, layout, strengths)
    mixed = blended(plain, layout, strengths)
    batch = everything(windows_of(data, range(100)))
    rows = batch.enc_x[:, -7:, 0].double().numpy()
    mean = rows.mean(axis=1, keepdims=True)
    own = (rows - mean) @ plain + mean
    naive = rows[:, [7 - 5 + 0, 7 - 5 + 2, 7 - 5 + 3]]
    expected = 0.75 * own + 0.25 * naive
    np.testing.assert_allclose((rows - mean) @ mixed + mean, expected, atol=1e-9)
    losses = CrossValidation([FoldMoments([moments], [moments])], [0], layout).losses(strengths)
    actual = batch.target[:, [0, 2, 3], 0].double().numpy()
    np.testing.assert_allclose(losses, [np.mean((expected - actual) ** 2)], rtol=1e-7)


def test_lookbacks_that_take_too_long_to_be_fitted_are_not_offered():
    """A clock that moves a second whenever it is read: moments of the longest lookback take one for each column."""
    data = store((400,))
    train, val = parts_of(data, range(250), range(260, 320))
    fit = prepare(train, val, range(COLUMNS), **HOW, lookbacks=[4, 8, SEQ])
    ticks = itertools.count(-1_000_000)
    for most, longest in ((0.0, 4), (COLUMNS * ((8 + PRED) / (SEQ + PRED)) ** 2, 8), (COLUMNS, SEQ)):
        choice, best = fit.choose(lambda: float(-next(ticks)), most)
        assert max(choice.lookbacks) == longest
        assert best.lookback <= longest


def test_the_penalty_is_chosen_even_if_time_is_up():
    """Red if the penalties of the first pass are skipped for lack of time, or if anything else is tried."""
    train, val = parts_of(store((400,)), range(250), range(260, 320))
    fit = prepare(train, val, range(COLUMNS), **HOW)
    choice, best = fit.choose(lambda: -1.0)
    trials = [MapSettings(lookback=choice.start, own=inf, shared=shared) for shared in SHARED]
    assert best == min(trials, key=lambda one: choice.validation.losses(one).mean())
    assert choice.was_cut
    assert choice.n_trials == len(SHARED)


def test_no_more_channels_than_there_is_time_for() -> None:
    """100 seconds, of which 40 are for moments; a channel has 8 sums of a second each."""
    clock = [100.0]

    def slowly(channel: tuple[int, int], runs: list[WindowRun]) -> Moments:
        clock[0] -= 1.0
        return Moments(np.zeros((1, 1)), 1)

    channels = [(0, place) for place in range(16)]
    blocks = folds([WindowRun(0, 0, 40), WindowRun(0, 46, 70), WindowRun(1, 10, 100)], 4, 5)
    kept, _ = fold_moments(blocks, channels, slowly, lambda: clock[0])
    assert kept == [(0, 0), (0, 2), (0, 4), (0, 8), (0, 12)]
    assert clock[0] >= 60.0
