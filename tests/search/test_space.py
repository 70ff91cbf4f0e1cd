"""What a search tries: histories that the data suggest and allow, networks that what is given allows."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_configs import composed

from informer.base.errors import InputError
from informer.build import read_dataset
from informer.config.conversion import flat
from informer.config.training import SEARCHED, TrainConfig
from informer.search.space import (
    cheapest,
    comparable,
    fixed_values,
    least_sizes,
    lengths,
    networks,
    patch_len,
    variants,
    with_values,
)


def write(path: Path, rows: int, period: float, columns: int = 1) -> None:
    t = np.arange(rows)
    noise = np.random.default_rng(rows).normal(size=(columns, rows)) * 0.1
    frame = pd.DataFrame({f"c{i}": np.sin(2 * np.pi * t / period) + noise[i] for i in range(columns)})
    frame.insert(0, "date", pd.date_range("2020-01-01", periods=rows, freq="h"))
    path.parent.mkdir(exist_ok=True)
    frame.to_csv(path, index=False)


def settings(path: Path, *overrides: str) -> TrainConfig:
    return composed("dataset=csv", f"dataset.path={path}", "model=auto", *overrides)


def tried(config: TrainConfig) -> list[int]:
    return lengths(config, read_dataset(config, least_sizes(config)))


def test_every_key_of_a_search_is_open_in_the_yaml() -> None:
    """Red if the yaml and the list of keys differ, or a value set by the user is searched."""
    assert sorted(composed("model=auto").search) == sorted(SEARCHED)
    given = composed("model=auto", "seq_len=96", "model.d_model=32", "trainer.max_steps=null")
    assert fixed_values(given) == {"seq_len": 96, "model.d_model": 32, "trainer.max_steps": None}
    assert composed("model=informer_plus").search == []


def test_a_season_and_its_multiples_are_tried(folder: Path) -> None:
    write(folder / "a.csv", 3000, period=90)
    config = settings(folder / "a.csv", "pred_len=10")
    values = tried(config)
    assert {90, 180, 360} <= set(values)
    assert values == sorted(set(values))
    assert max(values) <= (2100 - 10) // 2, "half of the training rows are left to begin windows"


@pytest.mark.parametrize("rows", [48, 60, 100, 300])
def test_short_data_get_short_histories(rows: int, folder: Path) -> None:
    """Red if a history is tried that leaves a part without a window."""
    write(folder / "a.csv", rows, period=12)
    config = settings(folder / "a.csv", "pred_len=4")
    n_train, n_test = int(rows * 0.7), int(rows * 0.2)
    assert rows - n_train - n_test >= 4, "validation holds a horizon"
    values = tried(config)
    assert values
    assert all(1 <= seq_len <= n_train - 4 for seq_len in values)


def test_the_shortest_of_many_series_bounds_them_unless_short_ones_are_left_out(folder: Path) -> None:
    for name, rows in {"a": 3000, "b": 3000, "c": 200}.items():
        write(folder / f"in/{name}.csv", rows, period=90)
    strict, lenient = (settings(folder / "in", "pred_len=10", f"dataset.short={kind}") for kind in ("error", "skip"))
    assert max(tried(strict)) <= (140 - 10) // 2
    values = tried(lenient)
    assert max(values) > 300
    source = read_dataset(lenient, least_sizes(lenient))
    assert len(source.panel) == 3
    assert [series.name for series in comparable(lenient, source, values).panel] == ["a", "b"]


def test_what_is_given_is_the_only_one(folder: Path) -> None:
    write(folder / "a.csv", 500, period=24)
    config = settings(folder / "a.csv", "seq_len=77", "model.d_model=48", "pred_len=6")
    assert tried(config) == [77]
    for values in networks(config, 77, n_targets=1):
        assert not {"seq_len", "model.d_model"} & set(values)
        resolved = with_values(config, values)
        assert (resolved.seq_len, resolved.model.d_model) == (77, 48)


@pytest.mark.parametrize(
    ("pred_len", "overrides"),
    [
        *((pred_len, []) for pred_len in (1, 7, 24, 31, 300)),
        *((pred_len, ["label_len=5"]) for pred_len in (1, 300)),
        (24, ["model.patch_len=1"]),
        (300, ["model.encoder_stacks=[3,2,1]"]),
    ],
)
def test_every_network_is_one(pred_len: int, overrides: list[str], folder: Path) -> None:
    """Red if a network is tried whose lengths or widths are inconsistent."""
    config = composed("dataset=sample", "model=auto", f"pred_len={pred_len}", *overrides)
    candidates = tried(config)
    for seq_len in candidates:
        first = networks(config, seq_len, n_targets=4)
        for values in [*first, *variants(config, first[-1]), cheapest(config, seq_len)]:
            resolved = with_values(config, values)
            assert resolved.problems() == []
            assert resolved.search == []
            assert (resolved.seq_len, resolved.pred_len) == (seq_len, pred_len)
            own = flat({"model": {"d_model": resolved.model.d_model}, "seq_len": resolved.seq_len})
            assert {key: values[key] for key in own} == own


def test_tokens_are_cut_where_the_horizon_allows(folder: Path) -> None:
    config = composed("dataset=sample", "model=auto", "pred_len=24")
    widths = {values["model.patch_len"] for values in networks(config, 336, n_targets=4)}
    assert widths == {1, 8}
    assert all(math.gcd(24, 336) % width == 0 for width in widths)
    # the widest has 48 rows: 49 are a divisor, but too many
    assert [patch_len(composed("model=auto", f"pred_len={n}"), 42 * n) for n in (48, 49)] == [48, 7]
    alone = {values["model.channel_independent"] for values in networks(config, 336, n_targets=1)}
    assert alone == {False}, "one column has none to be apart from"


def test_what_leaves_no_network_is_refused() -> None:
    config = composed("dataset=sample", "model=auto", "model.n_heads=5")
    with pytest.raises(InputError, match=r"model\.d_model: expected a multiple of model\.n_heads=5, found 32"):
        networks(config, 48, n_targets=1)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["model=auto", "init_from=runs/x"], "init_from: expected a model with the sizes of that run"),
        (["model=auto", "model.skip=none"], "model.skip: expected maps with model=auto, found none"),
        (["model=auto", "trainer.time_budget_minutes=0"], "time_budget_minutes: expected more than 0, found 0"),
        (["trainer.time_budget_minutes=3"], "trainer.time_budget_minutes: only used with model=auto"),
        (["engine=ray"], "engine=ray: only used with model=auto"),
        (["model=auto", "workers=2"], "workers: only used with engine=ray, found workers=2"),
        (["model=auto", "engine=ray", "workers=0"], "workers: expected at least 1, found 0"),
        (["model=auto", "engine=ray", "dataset.memmap=true"], "engine=ray: expected dataset.memmap=false"),
        (["trainer.max_steps=0"], "trainer.max_steps: expected at least 1, found 0"),
        (["search=[seed]"], "search: expected some of seq_len, .*, found seed"),
    ],
)
def test_what_does_not_go_together(overrides: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        composed("dataset=sample", *overrides)
