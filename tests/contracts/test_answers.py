"""What commands print when they are called well: `answers.json` has the words of calls, one after the other,
and the lines of their answers and pages. The files are those of the golden runs.

`python tests/contracts/test_answers.py --record` writes what is said today. To add a call, write its words with `[]`.
"""

import json
import re
import shlex
import sys
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path

import pytest

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from entry_points import call
from golden_inputs import INPUTS, write

STORED = Path(__file__).with_name("answers.json")
ANSWERS: dict[str, list[str]] = json.loads(STORED.read_text(encoding="utf-8"))
NUMBER = re.compile(r"\d(?:[\d,]*\d)?(?:\.\d+)?(?:e[+-]\d+)?")


def said(words: str) -> list[str]:
    """What calls in an empty folder print, without spacing and seconds, and the first sentences of its page."""
    for name in INPUTS:
        if re.search(rf"\b{name}\b", words):
            write(name, Path())
    lines = []
    for line in words.split(" && "):
        outcome = call(*shlex.split(line))
        printed = re.sub(r"\d+:\d\d minutes", "0:00 minutes", outcome.out + outcome.err)
        lines += [f"status {outcome.status}", *(" ".join(each.split()) for each in printed.splitlines())]
    for page in sorted(Path().rglob("forecast_page.json")):
        content = json.loads(page.read_text(encoding="utf-8"))
        lines += [f"{key}: {content[key]}" for key in ("subtitle", "verdict", "expected", "problems") if key in content]
    return [line for line in lines if re.search(r"\w", line)]


def close(line: str, stored: str) -> bool:
    """Whether the words are the same, and each number is within one unit of its last digit."""
    if NUMBER.sub("#", line) != NUMBER.sub("#", stored):
        return False
    numbers = (map(Decimal, NUMBER.findall(each.replace(",", ""))) for each in (line, stored))
    return all(
        abs(one - other) <= Decimal(1).scaleb(int(other.as_tuple()[2])) for one, other in zip(*numbers, strict=True)
    )


@pytest.mark.parametrize("words", ANSWERS)
def test_a_good_call(words: str, folder: Path) -> None:
    """Red if a line is missing, new, in another place, or has other words or numbers."""
    found = said(words)
    assert [pair for pair in zip_longest(found, ANSWERS[words], fillvalue="") if not close(*pair)] == []


def record() -> None:
    """Write what is said today."""
    import os
    import tempfile

    found = {}
    for words in ANSWERS:
        with tempfile.TemporaryDirectory() as place:
            os.chdir(place)
            found[words] = said(words)
            os.chdir(STORED.parent)
    STORED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
