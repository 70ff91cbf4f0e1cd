"""Columns of categories compared with dictionaries and pandas.Categorical."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import load_data

from informer import InputError
from informer.config.data import DatasetConfig, Duplicates, Fill, ScalerConfig, SplitConfig, SplitKind
from informer.config.model import WindowSizes
from informer.data.columns import Roles
from informer.data.dataset import Data
from informer.read.columns import coded, label, unknown
from informer.read.table import table_of_frame

SIZES = WindowSizes(seq_len=3, label_len=1, pred_len=2)
WORDS = st.text("abxyz0.", min_size=1, max_size=3).filter(lambda word: not word.replace(".", "").isdigit())
CONFIG = DatasetConfig(split=SplitConfig(kind=SplitKind.rows, train=20, val=10, test=10))


def frame_of(cells: list[object], **more: object) -> pd.DataFrame:
    dates = pd.date_range("2020-01-01", periods=len(cells), freq="D")
    return pd.DataFrame({"date": dates, "kind": cells, "y": np.arange(len(cells)) % 7.0}).assign(**more)


def data_of(frame: pd.DataFrame, config: DatasetConfig = CONFIG, roles: Roles | None = None) -> Data:
    return load_data(config, SIZES, roles or Roles(past_covariates=["kind"]), frame=frame)


@settings(deadline=None, max_examples=60)
@given(known=st.lists(WORDS, unique=True, min_size=1), cells=st.lists(WORDS | st.none(), min_size=1))
def test_codes_are_those_of_pandas(known: list[str], cells: list[str | None]) -> None:
    """Red if the number of a category is not its place among the known ones, or an unknown one is not 0."""
    labels = [*dict.fromkeys(map(label, known))]
    texts = [label(cell) for cell in cells]
    expected = pd.Categorical([text if text in labels else None for text in texts], categories=labels).codes + 1
    table = table_of_frame(frame_of(cells), "t")
    codes = coded(table, {"kind": labels}).frame["kind"]
    np.testing.assert_array_equal(codes, expected)
    others = sorted({text for text in texts if text not in labels})
    assert unknown(table, {"kind": labels}) == ({"kind": others} if others else {})


@settings(deadline=None, max_examples=60)
@given(cells=st.lists(st.sampled_from(["b", "a", "zz", "c c", None, "q"]), min_size=40, max_size=40))
def test_only_training_rows_make_categories(cells: list[str | None]) -> None:
    """Red if a later category gets a vector, or the numbers of windows are not those of a dictionary."""
    cells[0] = "b"  # not all are empty
    data = data_of(frame_of(cells))
    texts = ["" if cell is None else cell for cell in cells]
    known = sorted(set(texts[:20]))
    assert data.categories == {"kind": tuple(known)}
    numbers = {one: place + 1 for place, one in enumerate(known)}
    expected = [numbers.get(text, 0) for text in texts]
    place = data.inputs.index("kind")
    np.testing.assert_array_equal(data.panel[0].values[:, place], expected)
    np.testing.assert_array_equal(data.train.store.values[:, place], expected)  # unscaled


@pytest.mark.parametrize(
    ("cell", "text"),
    [(3, "3"), (3.0, "3"), ("3.0", "3"), ("03", "03"), (2.5, "2.5"), (True, "True"), (" a b ", "a b"), ("NA", ""),
     (None, ""), (float("nan"), ""), ("None", "")],
)  # fmt: skip
def test_a_category_is_the_text_of_a_cell(cell: object, text: str) -> None:
    assert label(cell) == text


def test_numbers_are_categories_on_request() -> None:
    """Without a role too: it is then a past covariate, and not a target."""
    numbers = [7, 1, 7.5, 1] * 10
    data = data_of(frame_of(numbers), replace(CONFIG, categorical=["kind"]), Roles())
    assert data.categories == {"kind": ("1", "7", "7.5")}
    assert (data.inputs, data.targets) == (("kind", "y"), ("y",))
    assert data_of(frame_of(numbers)).categories == {}


def test_a_category_of_pandas_is_one() -> None:
    data = data_of(frame_of([7, 1, 7, 1] * 10).astype({"kind": "category"}))
    assert data.categories == {"kind": ("1", "7")}


def test_categories_are_the_same_in_all_series() -> None:
    """Red if every series counts its own categories: b comes first in one, a in the other."""
    both = pd.concat([frame_of(["b", "a"] * 20, id="one"), frame_of(["a", "c"] * 20, id="two")])
    data = data_of(both, replace(CONFIG, series_col="id"))
    assert data.categories == {"kind": ("a", "b", "c")}
    assert [one.values[:2, 0].tolist() for one in data.panel] == [[2, 1], [1, 3]]


def test_repairs_do_not_average_codes() -> None:
    """Red if a missing or duplicate row gets a category between two others."""
    frame = frame_of([*"abc"] * 14)[:41]
    doubled = pd.concat([frame[:5], frame[4:5].assign(kind="a", y=100.0), frame[5:]])  # row 4 is b
    config = replace(CONFIG, duplicates=Duplicates.mean, fill=Fill.linear, confirm=["duplicates"])
    data = data_of(doubled.drop(index=10).reset_index(drop=True), config)
    codes = data.panel[0].values[:, 0]
    assert (codes[4], codes[9], codes[10], codes[11]) == (2, 1, 1, 3)
    assert data.panel[0].values[4, 1] == (4 + 100) / 2


@pytest.mark.parametrize(
    ("config", "roles", "line"),
    [
        ({}, {"target": "kind"}, "target=kind: its cells are categories, which are not forecast"),
        ({}, {"targets": ["kind"]}, "target=kind: its cells are categories"),
        ({"categorical": ["sort"]}, {}, "dataset.categorical=sort: t has no such column"),
    ],
)
def test_what_cannot_be(config: dict, roles: dict, line: str) -> None:
    wanted = replace(CONFIG, **({"categorical": ["kind"]} | config))
    with pytest.raises(InputError, match=line):
        data_of(frame_of([*"ab"] * 20), wanted, Roles(**roles))


@pytest.mark.parametrize("per_series", [False, True])
def test_the_scaler_leaves_codes_as_they_are(per_series: bool) -> None:
    """After loading a checkpoint too, and for a series that training did not have."""
    both = pd.concat([frame_of(["b", "a"] * 20, id=one) for one in ("one", "two")])
    config, roles = replace(CONFIG, series_col="id"), Roles(past_covariates=["kind"])
    data = load_data(config, SIZES, roles, frame=both, scaler=ScalerConfig(per_series=per_series))
    restored = type(data.scaler).model_validate(data.scaler.state())
    rows = np.array([[1.0, 3.0], [2.0, 5.0]])
    for name in ("one", "new"):
        np.testing.assert_array_equal(restored.of(name, rows).transform(rows)[:, 0], [1.0, 2.0])
