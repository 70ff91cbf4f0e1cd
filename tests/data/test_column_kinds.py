"""Random combinations of kinds of columns: windows and categories against loops over pandas' rows, written plainly."""

from dataclasses import dataclass
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import load_data

from informer.config.data import (
    Calendar,
    DatasetConfig,
    FeatureMode,
    ScalerConfig,
    SplitConfig,
)
from informer.config.model import WindowSizes
from informer.data.columns import Roles
from informer.data.dataset import Data

SIZES = WindowSizes(seq_len=4, label_len=2, pred_len=3)
TRAIN, VAL, TEST = 24, 12, 14
SPLIT = SplitConfig(kind="rows", train=TRAIN, val=VAL, test=TEST)
N = TRAIN + VAL + TEST
KINDS = ("number", "text", "integer")
NEW_YEAR = "2024-01-01"


@dataclass(frozen=True, slots=True)
class Case:
    """A table and what its columns are; `static` of text or number, `covariates` by name: (kind, known ahead).

    `gaps`: cells of numbers are missing, and stay so.
    """

    covariates: dict[str, tuple[str, bool]]
    static: tuple[str, ...]
    n_series: int
    fields: tuple[str, ...]
    holidays: bool
    per_series: bool
    gaps: bool
    seed: int

    def frame(self) -> pd.DataFrame:
        draw, parts = np.random.default_rng(self.seed), []
        for k in range(self.n_series):
            part = pd.DataFrame({"date": pd.date_range("2023-12-20", periods=N), "id": f"s{k}"})
            for name, (kind, _) in self.covariates.items():
                part[name] = {
                    "number": draw.normal(3, 2, N),
                    "text": draw.choice([*"abcde"], N, p=[0.5, 0.3, 0.15, 0.04, 0.01]),
                    "integer": draw.choice([3, 11, 40], N, p=[0.6, 0.35, 0.05]),
                }[kind]
            for name in self.static:
                part[name] = draw.choice(["hill", "sea"]) if name == "region" else float(draw.integers(1, 9))
            part["y"] = draw.normal(10 * k, 1 + k, N)
            for name in ["y", *(one for one, (kind, _) in self.covariates.items() if kind == "number")]:
                part[name] = part[name].mask(self.gaps & (draw.random(N) < 0.3))
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def names(self, *, ahead: bool) -> list[str]:
        return [name for name, (_, known) in self.covariates.items() if known == ahead]

    @property
    def categorical(self) -> list[str]:
        return [name for name, (kind, _) in self.covariates.items() if kind == "integer"]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kinds = draw(st.lists(st.tuples(st.sampled_from(KINDS), st.booleans()), max_size=3))
    n_series = draw(st.integers(1, 3))
    fields = draw(st.lists(st.sampled_from(["weekday", "day", "month"]), unique=True, max_size=2))
    static = draw(st.sampled_from([(), ("region",), ("size",), ("region", "size")])) if n_series > 1 else ()
    return Case(
        covariates={f"c{place}": kind for place, kind in enumerate(kinds)},
        static=static,
        n_series=n_series,
        fields=tuple(fields),
        holidays=draw(st.booleans()),
        per_series=draw(st.booleans()),
        gaps=draw(st.booleans()),
        seed=draw(st.integers(0, 99)),
    )


def read(case: Case, frame: pd.DataFrame) -> Data:
    config = DatasetConfig(
        series_col="id", split=SPLIT, categorical=case.categorical, static_covariates=list(case.static),
        fill="mask" if case.gaps else None,
    )  # fmt: skip
    roles = Roles(
        targets=["y"], past_covariates=case.names(ahead=False), future_covariates=case.names(ahead=True),
        static_covariates=case.static,
    )  # fmt: skip
    marks = Calendar("timeF", case.fields or ("weekday",), ("US",) if case.holidays else ())
    scaler = ScalerConfig(kind="standard", per_series=case.per_series)
    return load_data(config, SIZES, roles, frame=frame, scaler=scaler, calendar=marks)


def by_hand(case: Case, frame: pd.DataFrame, inputs: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The inputs [N c] of each series: codes of categories, and numbers scaled by their training rows."""
    parts = {name: part.reset_index(drop=True) for name, part in frame.groupby("id")}
    whole = pd.concat([part[:TRAIN] for part in parts.values()])
    arrays = {name: np.empty((N, len(inputs))) for name in parts}
    for place, column in enumerate(inputs):
        is_code = column == "region" or case.covariates.get(column, ("",))[0] in ("text", "integer")
        known = sorted(set(whole[column].astype(str))) if is_code else []
        for name, part in parts.items():
            for row in range(N):
                cell = part[column][row]
                if is_code:
                    arrays[name][row, place] = known.index(str(cell)) + 1 if str(cell) in known else 0
                    continue
                own = case.per_series and len(parts) > 1 and column not in case.static
                fitted = (part[:TRAIN] if own else whole)[column]
                spread = fitted.std(ddof=0)
                arrays[name][row, place] = (cell - fitted.mean()) / (spread if spread > 1e-9 else 1.0)
    return arrays


def marks_by_hand(case: Case, dates: pd.Series) -> np.ndarray:
    """Fields from -0.5 to 0.5 over their range, then 0.5 on the holidays of these weeks, -0.5 on other days."""
    rules = {"weekday": (0, 6), "day": (1, 30), "month": (1, 11)}
    rows = []
    for date in dates:
        values = {"weekday": date.weekday(), "day": date.day, "month": date.month}
        row = [(values[field] - rules[field][0]) / rules[field][1] - 0.5 for field in case.fields or ("weekday",)]
        days = {"2023-12-25", NEW_YEAR, "2024-01-15"}
        rows.append(row + ([float(str(date.date()) in days) - 0.5] if case.holidays else []))
    return np.array(rows)


def is_kept(rows: np.ndarray, place: int, start: int) -> bool:
    """Half of the rows of the history, and of those of the horizon, have a target."""
    middle, last = start + SIZES.seq_len, start + SIZES.seq_len + SIZES.pred_len
    parts = rows[start:middle, place], rows[middle:last, place]
    return all(np.count_nonzero(~np.isnan(part)) >= len(part) / 2 for part in parts)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(case=cases())
def test_windows_are_those_of_loops(case: Case) -> None:
    """Red when a column is scaled, numbered, hidden or marked as one of another kind, or a window has rows of another
    series."""
    frame = case.frame()
    data = read(case, frame)
    assert set(data.inputs) == {*case.covariates, *case.static, "y"}
    arrays, target = by_hand(case, frame, data.inputs), data.inputs.index("y")
    holed = {place for rows in arrays.values() for place in np.flatnonzero(np.isnan(rows[:TRAIN]).any(axis=0))}
    assert data.masked == (tuple(sorted(holed)) if case.gaps else None)
    marks = marks_by_hand(case, frame["date"][:N])
    ahead = [data.inputs.index(name) for name in (*case.names(ahead=True), *case.static)]
    for windows, begin, end in (
        (data.train, 0, TRAIN),
        (data.val, TRAIN - SIZES.seq_len, TRAIN + VAL),
        (data.test, TRAIN + VAL - SIZES.seq_len, N),
    ):
        starts = range(begin, end - SIZES.seq_len - SIZES.pred_len + 1)
        batch = windows.batch(windows.starts.argsort())
        places = [(k, start) for k in range(case.n_series) for start in starts]
        places = [(k, start) for k, start in places if is_kept(arrays[f"s{k}"], target, start)]
        assert len(windows) == len(places)
        for number, (k, start) in enumerate(places):
            rows = arrays[f"s{k}"]
            middle, last = start + SIZES.seq_len, start + SIZES.seq_len + SIZES.pred_len
            decoder = np.zeros((SIZES.label_len + SIZES.pred_len, len(data.inputs)))
            decoder[: SIZES.label_len] = rows[middle - SIZES.label_len : middle]
            decoder[SIZES.label_len :, ahead] = rows[middle:last, ahead]
            np.testing.assert_allclose(batch.enc_x[number], rows[start:middle], atol=1e-5)
            np.testing.assert_allclose(batch.dec_x[number], decoder, atol=1e-5)
            np.testing.assert_allclose(batch.target[number, :, 0], rows[middle:last, target], atol=1e-5)
            np.testing.assert_allclose(batch.enc_mark[number], marks[start:middle], atol=1e-6)
            np.testing.assert_allclose(batch.dec_mark[number], marks[middle - SIZES.label_len : last], atol=1e-6)
            np.testing.assert_allclose(
                batch.in_units(batch.target)[number, :, 0], frame["y"][k * N + middle : k * N + last], atol=1e-4
            )
            assert batch.series[number] == (k if case.n_series > 1 else -1)


M, S, MS = get_args(FeatureMode)
FOUND = ["a", "b", "c", "d"]

# what is said, then inputs, targets, future covariates
CASES = [
    (Roles(), "abcd", "abcd", ""),
    (Roles(target="b"), "abcd", "abcd", ""),
    (Roles(features=S), "d", "d", ""),
    (Roles(features=S, target="b"), "b", "b", ""),
    (Roles(features=MS, target="b"), "abcd", "b", ""),
    (Roles(past_covariates=["d"]), "abcd", "abc", ""),
    (Roles(past_covariates=["a"], future_covariates=["c"]), "abcd", "bd", "c"),
    (Roles(features=S, future_covariates=["d", "a"]), "acd", "c", "ad"),
    (Roles(features=MS, past_covariates=["d"]), "abcd", "c", ""),
    (Roles(targets=["c", "a"]), "ac", "ac", ""),
    (Roles(features=S, target="b", targets=["a"], past_covariates=["d"], future_covariates=["b"]), "abd", "a", "b"),
    (Roles(target="a", past_covariates=["a"]), "abcd", "bcd", ""),
]


@pytest.mark.parametrize(("roles", "inputs", "targets", "future"), CASES)
def test_roles(roles: Roles, inputs: str, targets: str, future: str) -> None:
    chosen = roles.choose(FOUND, name="file")
    assert (chosen.inputs, chosen.targets, chosen.future_covariates) == (tuple(inputs), tuple(targets), tuple(future))
    assert [chosen.inputs[i] for i in chosen.positions(chosen.targets)] == list(targets)
