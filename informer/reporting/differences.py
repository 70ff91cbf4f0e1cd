"""Settings in which runs differ, grouped by value: the form stays narrow for any number of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from informer.config.dataset import PUBLISHED

HEAD = ("Setting", "Value", "Runs")
"""Headings of the columns of `rows_of`."""

NO_VALUE = "–"
"""Stands for the value of runs that do not have the setting."""

SLOTS = ("attn", "cross_attn", "decoder_attn")
FOLLOWS = ("decoder_attn", "attn")
"""The first attention mechanism is the second one unless set."""


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

    Left out are keys that only one model family has (`model.family` already differs), files of different datasets
    (`dataset.name` differs), and the decoder's attention mechanism if it equals the encoder's in all runs.

    Args:
        settings: values by dotted key, one mapping per run.
    """
    named = [with_short_names(run_settings) for run_settings in settings]
    keys = sorted({key for run_settings in named for key in run_settings})
    differences = [
        Difference(key=key, values=_grouped([run_settings.get(key, NO_VALUE) for run_settings in named]))
        for key in keys
    ]
    differing = [each for each in differences if sum(value != NO_VALUE for value, _ in each.values) > 1]
    by_key = {each.key: each.values for each in differing}
    implied = {f"dataset.{name}" for name in PUBLISHED} if "dataset.name" in by_key else set()
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
    slot, dot, name = key.partition(".")
    return f"{FOLLOWS[1]}{dot}{name}" if slot == FOLLOWS[0] else ""


def _grouped(values: Sequence[str]) -> list[tuple[str, list[int]]]:
    groups: dict[str, list[int]] = {}
    for number, value in enumerate(values, start=1):
        groups.setdefault(value, []).append(number)
    return list(groups.items())


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, three or more in a row as a range: `1, 3-5`."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(f"{group[0]}-{group[-1]}" if len(group) > 2 else ", ".join(map(str, group)) for group in groups)
