"""How a CSV file is written: encoding, separator and decimal mark, found in the first bytes of the file."""

import codecs
import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

SEPARATORS = "\t;|,"
"""What may stand between cells; where two agree with the rows equally well, the one less often found within a cell."""

SAMPLED_LINES = 20

_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The marks of a CSV file and the encoding of its text; the defaults are the common ones."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    def uncommon(self) -> str:
        """What is not as in most files, to tell a reader of the log; empty where all is."""
        found = [
            f"separator {self.separator!r}" if self.separator != COMMON.separator else "",
            f"decimal mark {self.decimal!r}" if self.decimal != COMMON.decimal else "",
            f"encoding {self.encoding}" if self.encoding not in (COMMON.encoding, "utf-8-sig") else "",
        ]
        return ", ".join(filter(None, found))


COMMON = Dialect()


def find_encoding(content: bytes) -> str:
    """The encoding of a file from its first bytes: UTF-8 or UTF-16 by its mark, UTF-8, GBK or Latin-1 by what fits.

    Every text is Latin-1 to a decoder, and much of it GBK: bytes above 127 are Chinese where nearly all of them form
    pairs of the 3755 usual characters or of their punctuation, which accented letters hardly ever do.
    """
    marked = next((encoding for bom, encoding in _BOMS.items() if content.startswith(bom)), None)
    if marked is not None:
        return marked
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content)  # incremental: the last character may be cut
        return "utf-8"
    except UnicodeDecodeError:
        return "gbk" if _is_chinese(content) else "latin-1"


def find_separator(lines: Sequence[str]) -> str:
    """The mark that divides the header and most rows into equally many cells.

    Args:
        lines: the header and some rows.
    """
    present = [mark for mark in SEPARATORS if mark in lines[0]]
    if len(present) < 2:
        return present[0] if present else ","
    return max(present, key=lambda mark: _agreement(lines, mark))


def find_decimal(text: str, separator: str) -> str:
    """The comma where cells such as 1,5 are there and none such as 1.5; between commas it stays the point.

    A quoted "1,250" among commas may as well be a thousand, so there the comma has to be asked for.
    """
    if separator == ",":
        return "."
    mark = re.escape(separator)
    cell = rf'(?m)(?:^|{mark})[ \t"]*[+-]?\d+{{point}}\d+(?:[eE][+-]?\d+)?[ \t"]*(?={mark}|\r?$)'
    comma, point = (re.search(cell.format(point=sign), text) for sign in (",", r"\."))
    return "," if comma and not point else "."


def _is_chinese(content: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("gbk")().decode(content)
    except UnicodeDecodeError:
        return False
    pairs = [sign.encode("gbk") for sign in text if sign > "\x7f"]
    # rows of the GB 2312 table: A1-A3 punctuation, B0-D7 the usual characters
    usual = sum(first in b"\xa1\xa2\xa3" or 0xB0 <= first <= 0xD7 for first, second in pairs if second >= 0xA1)
    return usual > 0.8 * len(pairs)


def _agreement(lines: Sequence[str], separator: str) -> tuple[float, int]:
    """Share of the rows that have as many cells as the header, and their number."""
    widths = [len(cells) for cells in csv.reader(lines, delimiter=separator)]
    return widths.count(widths[0]) / len(widths), widths[0]
