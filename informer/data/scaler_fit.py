"""Center and scale of columns, fitted by scikit-learn in blocks of rows."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float64, Int64

from informer.config.dataset import ScalerKind

Table = Float64[np.ndarray, "_ c"]
Units = Int64[np.ndarray, "c"]

SMALL = 1e-6
"""Columns whose values are all smaller than this are fitted in units of a power of two."""

BLOCK = 1 << 20
"""Values read at once from tables that may be larger than memory; scikit-learn holds several copies of them."""


def fitted(kind: ScalerKind, tables: Sequence[Table], units: Units) -> tuple[np.ndarray, np.ndarray]:
    """Center and scale of each column, fitted by scikit-learn in these units."""
    # imported here because scikit-learn is slow to import and prediction does not fit scalers
    from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

    if kind is ScalerKind.standard:
        standard = StandardScaler()
        for block in _blocks(tables, units):
            standard.partial_fit(block)
        return standard.mean_, standard.scale_
    if kind is ScalerKind.minmax:
        minmax = MinMaxScaler()
        for block in _blocks(tables, units):
            minmax.partial_fit(block)
        return minmax.data_min_, 1.0 / minmax.scale_
    # quantiles need all rows, so fit one column at a time
    robust = [
        RobustScaler().fit(np.ldexp(np.concatenate([table[:, [column]] for table in tables]), unit))
        for column, unit in enumerate(units)
    ]
    return np.concatenate([scaler.center_ for scaler in robust]), np.concatenate([scaler.scale_ for scaler in robust])


def bounds(tables: Sequence[Table]) -> tuple[Float64[np.ndarray, "c"], Float64[np.ndarray, "c"]]:
    """The smallest and the largest value of each column; NaN for a column with gaps."""
    bounds = [(block.min(axis=0), block.max(axis=0)) for block in _blocks(tables)]
    return np.min([low for low, _ in bounds], axis=0), np.max([high for _, high in bounds], axis=0)


def units_of(low: Float64[np.ndarray, "c"], high: Float64[np.ndarray, "c"]) -> Units:
    """The power of two that scales a column's largest value to about 1; 0 for usual sizes, or a single value."""
    largest = np.maximum(np.abs(low), np.abs(high))
    return np.where((low < high) & (largest < SMALL), -np.frexp(largest)[1], 0).astype(np.int64)


def _blocks(tables: Sequence[Table], units: Units | None = None) -> Iterator[Table]:
    """Rows of all tables in blocks of at most BLOCK values, combining small tables; in these units.

    The blocks do not depend on how rows are divided into tables, because sums over blocks differ in the last digit.
    """
    blocks = _whole_blocks(tables, max(1, BLOCK // max(1, tables[0].shape[1])))
    yield from blocks if units is None or not units.any() else (np.ldexp(block, units) for block in blocks)


def _whole_blocks(tables: Sequence[Table], most: int) -> Iterator[Table]:
    gathered: list[Table] = []
    n_rows = 0
    for table in tables:
        for begin in range(0, len(table), most):
            rows = table[begin : begin + most]
            if n_rows + len(rows) > most:
                yield np.ascontiguousarray(np.concatenate(gathered))
                gathered, n_rows = [], 0
            gathered.append(rows)
            n_rows += len(rows)
    yield np.ascontiguousarray(np.concatenate(gathered))
