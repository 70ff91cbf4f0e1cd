"""Stores, series and future covariates made by hand, for tests of what reads them."""

from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from informer.config.data import Calendar, DatasetConfig, ScalerConfig
from informer.config.model import WindowSizes
from informer.data.columns import Roles
from informer.data.dataset import Data, lay_out, read_source
from informer.data.windows import DataUnits, Store
from informer.read.rows import Report
from informer.read.series import Reading, Series
from informer.read.table import Table, table_of_frame

STANDARD = {"scaler": ScalerConfig(), "calendar": Calendar("timeF"), "device": "cpu"}


def load_data(
    dataset: DatasetConfig,
    sizes: WindowSizes,
    roles: Roles | None = None,
    folder: Path | None = None,
    *,
    frame: pd.DataFrame | None = None,
    **how: Any,
) -> Data:
    """Read, split, scale and cut a dataset, or a frame in its place."""
    table = None if frame is None else table_of_frame(frame, "t")
    source = read_source(dataset, roles=roles or Roles(), data_dir=folder or Path(), table=table)
    return lay_out(source, dataset, sizes=sizes, **(STANDARD | how))


def one_series(values: Tensor, marks: Tensor | None = None) -> Store:
    """One series that is scaled already: its own units are the scaled ones."""
    device, units = values.device, values.new_ones(1, values.shape[1], dtype=torch.float64)
    begin = torch.zeros(1, dtype=torch.long, device=device)
    return Store(
        values=values,
        marks=torch.zeros(len(values), 1, device=device) if marks is None else marks,
        first_rows=begin,
        mark_shift=begin,
        units=DataUnits(0 * units, units),
        numbers=begin,
    )


def series_from_frame(
    frame: pd.DataFrame,
    config: DatasetConfig,
    name: str,
    *,
    history: int | None = None,
    trained_format: str | None = None,
) -> Series:
    """A frame whose time is a column, or its DatetimeIndex."""
    table = table_of_frame(frame, name, config.time_col)
    return series_from_table(table, config, name, trained_format, history=history)


def series_from_table(
    table: Table, config: DatasetConfig, name: str, trained_format: str | None = None, **how: Any
) -> Series:
    """The single series of a prepared table."""
    return Reading(table, config, name, trained_format=trained_format).series(**how)


def checked(frame: pd.DataFrame, config: DatasetConfig, name: str, **how: Any) -> tuple[Series | None, Report]:
    """The series of a frame, None if it cannot be read, and all that is said about it."""
    return Reading(table_of_frame(frame, name), config, name).check(**how)
