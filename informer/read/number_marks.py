"""Separators within numbers: the decimal mark and, if any, the thousands separator.

`1.011` may be 1.011 or 1011. A cell with only one reading (0.5, 12.25, 1.011.012, 1.011,50) decides for the file; if
every cell of a column is ambiguous, the user must set it.
"""

import csv
import io
import re
from collections.abc import Iterator
from itertools import zip_longest

import numpy as np
import pandas as pd

from informer.read.cells import text_of

SPACES, APOSTROPHES = " \u00a0\u202f", "'\u2019"

GROUPING = ".," + SPACES + APOSTROPHES
"""Possible separators within numbers."""

_GROUPED = re.compile(
    rf"\d{{1,3}}(?P<mark>[{GROUPING}])\d{{3}}(?P<more>(?:(?P=mark)\d{{3}})*)(?:(?P<decimal>[.,])\d*)?"
)
_NUMBER = re.compile(rf"\s*[+-]?(?=[.,]?\d)([\d.,][\deE{GROUPING}+-]*?)\s*")
_TIME = re.compile(
    r"(?:[01]\d|2[0-3])\.[0-5]\d|(?:0?[1-9]|1[0-2])\.(?:1[89]|20|21)\d{2}|(?:1[89]|20|21)\d{2}\.(?:0[1-9]|1[0-2])"
)
"""Times of day and months with a point, which do not determine the decimal mark."""

_DECIMAL = re.compile(r"\d*(?P<decimal>[.,])\d*(?:[eE][+-]?\d+)?")


def find_marks(text: str, separator: str) -> tuple[str, str, bool]:
    """The decimal mark and the thousands separator ("": none) of the numbers in some lines of a file, and whether some
    cell is unambiguous."""
    decimals, groups, either = set[str](), set[str](), set[str]()
    for number in _numbers(text, separator):
        grouped = _GROUPED.fullmatch(number)
        if grouped is None or number.startswith("0"):
            decimals |= {match["decimal"] for match in [_DECIMAL.fullmatch(number)] if match}
        elif grouped["decimal"] == grouped["mark"]:
            continue  # 1.011.01 is not a number
        elif grouped["decimal"] or grouped["more"] or grouped["mark"] not in ".,":
            groups.add(_kind(grouped["mark"]))
            decimals |= {grouped["decimal"]} - {None}
        else:
            either.add(grouped["mark"])
    if len(decimals) > 1 or len(groups) > 1 or decimals & groups:
        return ".", "", False  # cells in the other format are then not numbers
    if not groups and separator == "," and "," in decimals:
        return ".", "", False  # a quoted "1,250" may be a thousand
    thousands = next(iter(groups), "")
    usual = {".": ",", ",": "."}.get(thousands) or ("," if either == {","} and separator != "," else ".")
    return next(iter(decimals), usual), thousands, bool(decimals or groups)


def without_thousands(cells: pd.Series, thousands: str, decimal: str) -> pd.Series:
    """Number text without thousands separators; text whose digits are not in groups of three becomes missing."""
    kind, point = _kind(thousands), re.escape(decimal)
    marks = f"[{re.escape({' ': SPACES, chr(39): APOSTROPHES}.get(kind, kind))}]"
    pattern = rf"\s*[+-]?(?:\d{{1,3}}(?:{marks}\d{{3}})+|\d+)?(?:{point}\d*)?(?:[eE][+-]?\d+)?\s*"
    text = text_of(cells)
    sound = text.where(text.str.fullmatch(pattern).astype(bool))
    return sound.str.replace(marks, "", regex=True).str.replace(decimal, ".", regex=False)


_CURRENCY = (
    r"[$\u20ac\u00a3\u00a5\u20b9\u20a9]|US\$|R\$|Rs\.?|kr\.?|z\u0142|USD|EUR|GBP|JPY|CHF|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|CZK"
    r"|BRL|ZAR|KRW"
)
_SIGN, MINUS = r"[+\u2212\u2013-]?", "\u2212\u2013-"
_AMOUNT = (
    rf"\s*(?P<below>(?:<\s?)?)(?P<open>\(?)(?P<sign>{_SIGN})(?P<currency>(?:{_CURRENCY})?)\s?(?P<inner>{_SIGN})(?P<number>\.?\d[\d{GROUPING}]*?)"
    rf"(?P<scale>[kKMBT]?)(?P<unit>(?:\s?(?:{_CURRENCY}|[%\u2030]|\u00b0[CF]?)|\s[^\W\d_]+(?:/[^\W\d_]+|[23\u00b2\u00b3])?)?)(?P<last>-?)\)?\s*"
)
_SCALES = {"k": 3, "K": 3, "M": 6, "B": 9, "T": 12}
"""Digits that a letter after a number stands for, as in 45.2K."""
_OF_TIME = {"AM", "PM", "am", "pm", "h", "H", "Uhr"}
_MARKED = rf"[^\d\s{GROUPING}+eE-]|\d-\s*$"


def amounts(texts: pd.Series) -> tuple[np.ndarray, str] | None:
    """Amounts of money and numbers with a unit, in brackets or with a minus sign of print, and what is left out.

    Percents stay percents; of a value below a limit, such as <1, half the limit is read; 45.2K are 45,200. None if a
    text is no such number, if currencies or units differ, if the marks of the numbers are ambiguous, or if all numbers
    before a K, M, B or T are whole, as in 3M for months.
    """
    if not texts.str.contains(_MARKED).any():
        return None
    parts = texts.str.extract(f"^(?:{_AMOUNT})$")
    marks = [parts[name].str.strip() for name in ("currency", "unit")]
    used = [{*each.unique()} for each in marks if parts["number"].notna().all()]
    if not used or any(len(each) > 1 for each in used) or used[1] & _OF_TIME:
        return None
    written = parts["number"].str.strip()
    is_scaled = parts["scale"] != ""
    if is_scaled.any() and not written[is_scaled].str.contains("[.,]").any():
        return None
    decimal, thousands, is_settled = find_marks("\n".join(["", *written]), "\t")
    if not is_settled and (either := written.str.extract(r"([.,])", expand=False).dropna()).any():
        is_money = any(re.fullmatch(_CURRENCY, sign) for sign in used[0] | used[1])
        if not is_money and not (parts["open"] == "(").any():
            return None
        thousands = either.iloc[0]  # money has no three decimals
        decimal = "." if thousands == "," else ","
    values = pd.to_numeric(without_thousands(written, thousands, decimal), errors="coerce").to_numpy(np.float64)
    values = values * 10.0 ** parts["scale"].map(_SCALES).fillna(0).to_numpy()
    is_negative = parts["open"] == "("
    for name in ("sign", "inner", "last"):
        is_negative |= parts[name].isin([*MINUS])
    is_below = parts["below"] != ""
    said = " and ".join(filter(None, sorted(used[0] | used[1]))) or "brackets or signs of print"
    said = f"{texts[is_below].iloc[0].strip()} as half of it" if is_below.any() else f"without {said}"
    if is_scaled.any():
        said = ", ".join(f"{letter} as 10^{_SCALES[letter]}" for letter in sorted({*parts["scale"][is_scaled]}))
    return None if np.isnan(values).any() else (np.where(is_negative, -values, values) / (1 + is_below), said)


def may_be_amount(cell: object) -> bool:
    """Whether a cell is text that `amounts` could read."""
    return isinstance(cell, str) and re.fullmatch(_AMOUNT, cell) is not None


def find_doubts(texts: pd.DataFrame, decimal: str) -> dict[str, tuple[str, int]]:
    """Columns of numbers that may be a thousand times larger: in each, every mark has one to three digits before and
    three after it. For each one of the cells, and its row in the frame.

    Empty if a cell of another column shows that the mark is that of decimals.
    """
    shape = rf"\s*[+-]?[1-9]\d{{0,2}}{re.escape(decimal)}\d{{3}}\s*"
    doubts: dict[str, tuple[str, int]] = {}
    for column, cells in texts.items():
        marked = cells[cells.str.contains(decimal, regex=False, na=False)]
        if not len(marked) or all(map(_TIME.fullmatch, marked)):
            continue
        if not marked.str.fullmatch(shape).all():
            return {}
        whole = pd.to_numeric(cells.drop(marked.index), errors="coerce").abs()
        if not (whole >= 1000).any():
            doubts[str(column)] = marked.iloc[0].strip(), int(marked.index[0])
    return doubts


def are_smoother_as_thousands(values: np.ndarray, marked: np.ndarray) -> bool:
    """Whether values vary less from row to row, relative to their size, if the `marked` ones are a thousand times
    larger; False if all are marked, since both readings then have the same shape.
    """
    if marked.all() or len(values) < 2:
        return False
    larger = np.where(marked, values * 1000, values)
    jumps = [np.abs(np.diff(array)).sum() / max(np.abs(array).sum(), 1e-300) for array in (values, larger)]
    return bool(jumps[1] < jumps[0])


def mark_advice(cell: str) -> str:
    """What to do about a cell that is no number, but may be one with another decimal mark or thousands separator."""
    grouped = _GROUPED.fullmatch(cell.strip().lstrip("+-"))
    if grouped is None:
        is_decimal = re.fullmatch(r"\s*[+-]?\d+,\d+\s*", cell)
        return "if the comma is its decimal mark, set dataset.decimal=','" if is_decimal else "fix the cell"
    mark = _kind(grouped["mark"])
    or_decimal = f", if it is the decimal mark dataset.decimal='{mark}'" if mark in ".," and not grouped["more"] else ""
    return f'if {mark!r} groups thousands, set dataset.thousands="{mark}"{or_decimal}'


def _kind(mark: str) -> str:
    return " " if mark in SPACES else "'" if mark in APOSTROPHES else mark


def _numbers(text: str, separator: str) -> Iterator[str]:
    """Cells of only digits and separators, without signs, except in columns that may be times."""
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True))[1:]
    for column in zip_longest(*rows, fillvalue=""):
        cells = [match[1] for match in map(_NUMBER.fullmatch, column) if match]
        if not all(map(_TIME.fullmatch, cells)):
            yield from cells
