"""Settings in which runs differ, grouped by value: the form stays narrow for any number of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HEAD = ("Setting", "Value", "Runs")
"""Headings of the columns of `rows_of`."""

NO_VALUE = "–"
"""Stands for the value of runs that do not have the setting."""

SLOTS = ("attn", "cross_attn", "decoder_attn")
FOLLOWS = ("decoder_attn", "attn")
"""The first attention mechanism is the second one unless set."""

OF_DATASET = {f"dataset.{name}" for name in ("file", "packaged", "url", "sha256", "hint")}
"""Where the data of a named dataset are from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A setting whose values differ.

    Args:
        key: name of the setting.
        values: each value with the numbers of its runs, from 1; the value of run 1 first.
    """

    key: str
    values: Sequence[tuple[str, Sequence[int]]]


def find_differences(settings: Sequence[Mapping[str, str]]) -> list[Difference]:
    """Settings whose values differ among those configurations that have them, by name.

    Keys of one model family that others lack say no more than `model.family`, and files of different datasets no more
    than `dataset.name`. The decoder's attention mechanism is left out where it is that of the encoder in all runs.

    Args:
        settings: values by dotted key, one mapping per run.
    """
    named = [with_short_names(one) for one in settings]
    keys = sorted({key for one in named for key in one})
    differences = [Difference(key=key, values=_grouped([one.get(key, NO_VALUE) for one in named])) for key in keys]
    differing = [each for each in differences if sum(value != NO_VALUE for value, _ in each.values) > 1]
    by_key = {each.key: each.values for each in differing}
    implied = OF_DATASET if "dataset.name" in by_key else set()
    return [each for each in differing if each.key not in implied and by_key.get(_followed(each.key)) != each.values]


def rows_of(differences: Sequence[Difference]) -> list[tuple[str, str, str]]:
    """Setting, value, and runs such as `1, 3-5`: one row per value."""
    return [(each.key, value, _ranges(runs)) for each in differences for value, runs in each.values]


def with_short_names(settings: Mapping[str, str]) -> dict[str, str]:
    """Mechanisms by the names of the command line: `attn=prob`, not `attn._target_=...prob.ProbAttention`."""
    renamed = dict(settings)
    for slot in SLOTS:
        target = renamed.pop(f"{slot}._target_", None)
        if target is not None:
            renamed[slot] = target.split(".")[-2] if target.count(".") > 1 else target
    return renamed


def _followed(key: str) -> str:
    """The key whose value this one takes by default; empty if none."""
    slot, dot, rest = key.partition(".")
    return f"{FOLLOWS[1]}{dot}{rest}" if slot == FOLLOWS[0] else ""


def _grouped(values: Sequence[str]) -> list[tuple[str, list[int]]]:
    groups: dict[str, list[int]] = {}
    for number, value in enumerate(values, start=1):
        groups.setdefault(value, []).append(number)
    return list(groups.items())


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, three or more in a row as a range: `1, 3-5`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts)
