"""Assemble the chunks of a long CSV file in one frame with little memory.

pandas concatenates the cells of a file at the end, when it holds them twice. Here each chunk is copied into arrays for
all rows and freed, and repeated text is dictionary-encoded.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from informer.data.read.cells import dictionary_encoded
from informer.data.read.memory import release_free

ROWS = 1 << 16
"""Rows of a chunk."""

CHUNKS = 8
"""Chunks after which memory freed by the parser is returned to the operating system."""

REPEATED = 4
"""Minimum average number of rows per distinct text for dictionary encoding."""

EXACT = 1 << 53
"""Integers below this are exact in double precision."""

GROWTH = 32
"""Arrays grow by 1 / GROWTH of their length, in place if the system can."""


class MixedColumnError(ValueError):
    """A column has different types in different chunks, so the file must be read at once."""


def assembled(chunks: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate chunks; a single chunk is returned unchanged.

    Args:
        chunks: chunks with equal columns, in order; at least one.

    Raises:
        MixedColumnError: a column changes its type.
    """
    remaining = iter(chunks)
    first = next(remaining)
    second = next(remaining, None)
    if second is None:
        return first
    columns = _Parts.of(first)
    for number, chunk in enumerate(chain([first, second], remaining), start=1):
        columns.add(chunk)
        if number % CHUNKS == 0:
            release_free(columns.numbers.filled_bytes)
    return columns.frame()


def without_blank_end(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame without blank rows at its end, which spreadsheets leave there."""
    last: Any = frame.iat[-1, 0] if len(frame) else None  # without selecting the column
    if not len(frame) or pd.notna(last):
        return frame
    filled = np.flatnonzero(frame.notna().any(axis=1))
    return frame.iloc[: filled[-1] + 1 if len(filled) else 0]


@dataclass(slots=True)
class _Rows:
    """An array to which rows are appended."""

    array: np.ndarray
    n: int = 0

    def add(self, values: np.ndarray) -> None:
        end = self.n + len(values)
        if end > len(self.array):
            self.array.resize(
                (max(end, len(self.array) + len(self.array) // GROWTH), *self.array.shape[1:]), refcheck=False
            )
        self.array[self.n : end] = values
        self.n = end

    @property
    def filled_bytes(self) -> int:
        """Size of the rows so far."""
        return self.n * self.array.strides[0]

    def filled(self) -> np.ndarray:
        self.array.resize((self.n, *self.array.shape[1:]), refcheck=False)
        return self.array


@dataclass(slots=True)
class _Repeated:
    """Dictionary-encoded text: the distinct texts, and their code in each row; -1 for an empty cell."""

    codes: _Rows
    known: dict[str, int] = field(default_factory=dict)

    def add(self, cells: pd.Series) -> None:
        codes, texts = pd.factorize(cells)
        numbers = [*(self.known.setdefault(text, len(self.known)) for text in texts), -1]
        if len(self.known) > np.iinfo(self.codes.array.dtype).max:
            self.codes = _Rows(self.codes.filled().astype(np.int32), self.codes.n)
        self.codes.add(np.array(numbers, dtype=self.codes.array.dtype)[codes])

    def column(self) -> pd.Series:
        return dictionary_encoded(self.codes.filled(), list(self.known))


@dataclass(slots=True)
class _Texts:
    """Text of many different cells, in chunks. Those whose cells have the same lengths, such as the times of a long
    file, share the array of their ends, which takes 8 bytes for each cell."""

    chunks: list[pd.Series] = field(default_factory=list)
    ends: Any = None
    """Arrow buffer of the last chunk."""

    def add(self, cells: pd.Series) -> None:
        assert isinstance(cells.dtype, pd.StringDtype)
        self.chunks.append(self._shared(cells) if cells.dtype.storage == "pyarrow" else cells)

    def column(self) -> pd.Series:
        return pd.concat(self.chunks, ignore_index=True)

    def _shared(self, cells: pd.Series) -> pd.Series:
        import pyarrow  # which has made the cells

        text = pyarrow.chunked_array(pyarrow.array(cells.array)).combine_chunks()
        if text.type != pyarrow.large_string() or text.offset:
            return cells
        validity, ends, letters = text.buffers()
        if self.ends is None or not self.ends.equals(ends):
            self.ends = ends
        shared = pyarrow.LargeStringArray.from_buffers(len(text), self.ends, letters, validity)
        return pd.Series(pd.array(shared, dtype=cells.dtype), copy=False)


@dataclass(slots=True)
class _Parts:
    """The columns so far, by index, since names may repeat.

    Args:
        columns: column names of the file.
        places: indices of the columns that are float in the first chunk.
        numbers: values of these columns.
        whole: integer columns.
        repeated, texts: text columns, dictionary-encoded or plain.
    """

    columns: pd.Index
    places: list[int]
    numbers: _Rows
    whole: dict[int, _Rows]
    repeated: dict[int, _Repeated]
    texts: dict[int, _Texts]

    @classmethod
    def of(cls, first: pd.DataFrame) -> "_Parts":
        kinds = list(map(_kind, first.dtypes))
        by_kind: dict[str, list[int]] = {
            kind: [i for i, own_kind in enumerate(kinds) if own_kind == kind] for kind in "fit"
        }
        repeated = [i for i in by_kind["t"] if _repeats(first.iloc[:, i])]
        n = len(first) * 2
        return cls(
            columns=first.columns,
            places=by_kind["f"],
            numbers=_Rows(np.empty((n, len(by_kind["f"])))),
            whole={i: _Rows(np.empty(n, dtype=np.int64)) for i in by_kind["i"]},
            repeated={i: _Repeated(_Rows(np.empty(n, dtype=np.int16))) for i in repeated},
            texts={i: _Texts() for i in by_kind["t"] if i not in repeated},
        )

    def add(self, chunk: pd.DataFrame) -> None:
        kinds = list(map(_kind, chunk.dtypes))
        for i in self.places:
            if kinds[i] == "t" or (kinds[i] == "i" and not _is_exact(chunk.iloc[:, i])):
                raise MixedColumnError
        self.numbers.add(chunk.iloc[:, self.places].to_numpy(dtype=np.float64))
        for i, rows in self.whole.items():
            self.whole[i] = _widened(rows, chunk.iloc[:, i], kinds[i])
        for i in (*self.repeated, *self.texts):
            if kinds[i] != "t":
                raise MixedColumnError
        for i, repeated in self.repeated.items():
            repeated.add(chunk.iloc[:, i])
        for i, texts in self.texts.items():
            texts.add(chunk.iloc[:, i])

    def frame(self) -> pd.DataFrame:
        """All rows, without copying the numbers."""
        frame = pd.DataFrame(self.numbers.filled(), columns=self.places, copy=False)
        for i, cells in sorted(self._others()):
            frame.insert(i, i, cells)
        return frame.set_axis(self.columns, axis="columns")

    def _others(self) -> Iterator[tuple[int, pd.Series]]:
        yield from ((i, pd.Series(rows.filled(), copy=False)) for i, rows in self.whole.items())
        yield from ((i, repeated.column()) for i, repeated in self.repeated.items())
        yield from ((i, texts.column()) for i, texts in self.texts.items())


def _kind(dtype: object) -> str:
    """The kind of a type: f (float), i (integer) or t (text).

    Raises:
        MixedColumnError: another type.
    """
    if isinstance(dtype, pd.StringDtype):
        return "t"
    if isinstance(dtype, np.dtype) and dtype.kind == "f":
        return "f"
    if dtype == np.int64:
        return "i"
    raise MixedColumnError


def _repeats(cells: pd.Series) -> bool:
    return cells.nunique() * REPEATED <= len(cells)


def _is_exact(cells: pd.Series) -> bool:
    values = cells.to_numpy()
    return values.min() > -EXACT and values.max() < EXACT


def _widened(rows: _Rows, cells: pd.Series, kind: str) -> _Rows:
    """Append a chunk to an integer column, which becomes a float column if the chunk is one."""
    if kind == "t" or (kind == "i" and rows.array.dtype.kind == "f" and not _is_exact(cells)):
        raise MixedColumnError
    if kind == "f" and rows.array.dtype.kind == "i":
        integers = pd.Series(rows.filled())
        if rows.n and not _is_exact(integers):
            raise MixedColumnError
        rows = _Rows(rows.array.astype(np.float64), rows.n)
    rows.add(cells.to_numpy())
    return rows
