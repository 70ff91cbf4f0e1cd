"""What a field of a settings class says about its values, and the checks that follow from it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, fields
from operator import ge, gt, le, lt
from typing import Any, ClassVar, cast

SCHEMES = ("s3", "gs", "gcs", "az", "abfs", "abfss", "https", "http", "memory")

_ANY = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]+)://")


def is_address(word: str) -> bool:
    """Whether a word of the command line is an address, which may contain `=`."""
    return _ANY.match(word) is not None


def setting(
    default: Any = None,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    required: str = "",
    check: Callable[[Any], Iterable[str]] | None = None,
    is_name: bool = False,
    is_path: bool = False,
    is_address: bool = False,
    **more: Any,
) -> Any:
    """A field of a settings class that says what it is.

    Args:
        default: its value if it is not set, or a function that makes one.
        least, above, most, below: bounds of a number, or of the numbers in a list; those of `above` and `below` are
            outside.
        required: for a setting that must be given: what was expected, for the message.
        check: returns one sentence for each problem of a value that is not None.
        is_name: it names a column or sheet, which may be called null.
        is_path: it is a single path, which is taken literally if it exists.
        is_address: it may be a remote address too, such as s3://bucket/file.csv.
        more: what else lists of settings follow from, see `informer.config.data.settings_that`.
    """
    metadata = {
        "least": least,
        "above": above,
        "most": most,
        "below": below,
        "required": required,
        "check": check,
        "is_name": is_name,
        "is_path": is_path or is_address,
        "is_address": is_address,
        **more,
    }
    return field(**{"default_factory" if callable(default) else "default": default}, metadata=metadata)


class Checked:
    """Base of the settings classes."""

    __slots__ = ()

    NODE: ClassVar[str] = ""
    """Prefix of its keys, such as `dataset.`"""

    def problems(self) -> list[str]:
        """One sentence for each value out of range, also in its nodes."""
        nodes = (getattr(self, each.name) for each in fields(cast(Any, self)))
        of_nodes = [line for node in nodes if isinstance(node, Checked) for line in node.problems()]
        return [*self.own_problems(), *of_nodes, *self._joint_problems()]

    def _joint_problems(self) -> Iterable[str]:
        """Problems of several values together, and those that no metadata describe."""
        return ()

    def own_problems(self) -> list[str]:
        """One sentence for each value that is out of range whatever the others are."""
        values = ((each, getattr(self, each.name)) for each in fields(cast(Any, self)))
        return [line for each, value in values for line in _problems(f"{self.NODE}{each.name}", each.metadata, value)]


def _problems(key: str, what: Mapping[str, Any], value: Any) -> Iterator[str]:
    if what.get("required") and not value:
        yield f"{key}: expected {what['required']}"
    numbers = {f"{key}[{place}]": each for place, each in enumerate(value)} if isinstance(value, list) else {key: value}
    bounds = {name: said for name, said in BOUNDS.items() if what.get(name) is not None}
    for name, number in numbers.items():
        if isinstance(number, int | float) and not all(holds(number, what[end]) for end, (_, holds) in bounds.items()):
            said = " and ".join(f"{words} {what[end]}" for end, (words, _) in bounds.items())
            said = f"{what['least']} to {what['most']}" if {"least", "most"} <= bounds.keys() else said
            yield f"{name}: expected {said}, found {number}"
    if what.get("check") and value is not None:
        yield from what["check"](value)
    if what.get("is_path") and isinstance(value, str) and (scheme := _ANY.match(value)):
        # the rest of an address may contain a password and is not shown
        if not what["is_address"]:
            # otherwise a local folder called `s3:` would be created
            yield (
                f"{key}: expected a local path, found an address ({scheme[0]}...); addresses are read as dataset.path "
                "by train and eval, and as input by predict, forecast, inspect and report"
            )
        elif scheme[1] not in SCHEMES:
            schemes = ", ".join(f"{name}://" for name in SCHEMES)
            yield f"{key}: expected a local path or one of {schemes}, found {scheme[0]}..."


BOUNDS = {"least": ("at least", ge), "above": ("more than", gt), "most": ("at most", le), "below": ("less than", lt)}
"""Bounds of a number in words, and when it holds."""
