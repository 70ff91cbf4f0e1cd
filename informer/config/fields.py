"""What a class of settings is: a dataclass that pydantic checks, whose fields say default, type, range and help once.

Help texts, `--cfg`, the reference in the documentation, Hydra's schema, and the reading of words and of saved
configurations follow from these declarations.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache, wraps
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeVar, cast, dataclass_transform, get_args, get_origin

import pydantic.dataclasses
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from informer.base.errors import InputError

SCHEMES = ("s3", "gs", "gcs", "az", "abfs", "abfss", "https", "http", "memory")

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]+)://")

Count = Annotated[int, Field(ge=1)]
"""A number of something, at least 1."""

RULES = ConfigDict(extra="forbid", allow_inf_nan=False, populate_by_name=True, ser_json_inf_nan="constants")


def is_address(word: str) -> bool:
    """Whether a word of the command line is an address, which may contain `=`."""
    return _ADDRESS.match(word) is not None


def setting(
    default: Any = None,
    help: str = "",
    *,
    required: str = "",
    check: Callable[[Any], Iterable[str]] | None = None,
    is_name: bool = False,
    is_path: bool = False,
    is_address: bool = False,
    environment: str = "",
    alias: str | None = None,
    **bounds: Any,
) -> Any:
    """A field of a class of settings.

    Args:
        default: its value if it is not set, or a function that makes one.
        help: one line for the user.
        required: for a setting that must be given: what was expected, for the message.
        check: returns one sentence for each problem of a value that is not None.
        is_name: it names a column or sheet, which may be called null.
        is_path: it is a single path, which is taken literally if it exists.
        is_address: it may be a remote address too, such as s3://bucket/file.csv.
        environment: variable that sets it if no word does.
        alias: its key, if that is a keyword of Python.
        bounds: `ge`, `gt`, `le` and `lt` bound a number.
    """
    facts: dict[str, Any] = {"required": required, "check": check, "is_name": is_name, "environment": environment}
    facts |= {"is_path": is_path or is_address, "is_address": is_address}
    made = {"default_factory" if callable(default) else "default": default}
    return Field(**made, description=help, alias=alias, json_schema_extra=facts, **bounds)


C = TypeVar("C")


@dataclass_transform(kw_only_default=True)
def settings(cls: type[C]) -> type[C]:
    """Make a class of settings, a subclass of `Checked`. Its constructor raises an InputError for values of another
    type or out of range."""
    made: Any = pydantic.dataclasses.dataclass(cls, kw_only=True, config=RULES)
    validated = made.__init__

    @wraps(validated)
    def construct(self: Any, **values: Any) -> None:
        with refusing_values(made):
            validated(self, **values)

    made.__init__ = construct
    return cast(type[C], made)


@settings
class Checked:
    """Base of the classes of settings."""

    NODE: ClassVar[str] = ""
    """Prefix of its keys, such as `dataset.`, in errors about it on its own."""

    def problems(self) -> Iterator[str]:
        """One sentence for each problem of several values together, and those that no declaration describes."""
        yield from ()

    @field_validator("*", mode="before")
    @classmethod
    def _flag_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Python takes true for the number 1."""
        if not isinstance(value, bool | list | tuple):
            return value
        kind = str(fields_of(cls)[cast(str, info.field_name)].annotation)
        if "bool" in kind or not re.search(r"\b(int|float)\b", kind):
            return value
        words = [str(each).lower() if isinstance(each, bool) else each for each in _listed(value)]
        return words if isinstance(value, list | tuple) else words[0]


S = TypeVar("S", bound=Checked)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def fields_of(schema: type) -> dict[str, FieldInfo]:
    """The fields of a class of settings by name."""
    return cast(Any, schema).__pydantic_fields__


def facts_of(field: FieldInfo) -> Mapping[str, Any]:
    """What `setting` was given."""
    return cast(Mapping[str, Any], field.json_schema_extra or {})


def default_of(field: FieldInfo) -> Any:
    """The value of a field that is not set."""
    return field.get_default(call_default_factory=True)


def keys_of(schema: type, prefix: str = "") -> dict[str, FieldInfo]:
    """The fields of a class and of the classes in it, by dotted key."""
    found: dict[str, FieldInfo] = {}
    for name, field in fields_of(schema).items():
        key, default = f"{prefix}{field.alias or name}", default_of(field)
        found |= keys_of(type(default), f"{key}.") if isinstance(default, Checked) else {key: field}
    return found


def text_kind(field: FieldInfo) -> type | None:
    """str or list if the values of a field are text or lists of texts (names, paths, formats); None for others."""
    hint = field.annotation
    options = set(get_args(hint) if get_origin(hint) is UnionType else (hint,)) - {NoneType}
    return str if options == {str} else list if options == {list[str]} else None


def check(values: S) -> S:
    """Return settings, or raise one InputError with all of their problems."""
    if problems := [*problems_of(values)]:
        raise InputError("; ".join(problems))
    return values


def problems_of(node: Checked, prefix: str | None = None) -> Iterator[str]:
    """One sentence for each problem, also of nodes; types and ranges were checked when the classes were made.

    Args:
        prefix: of the keys; None: that of the class.
    """
    prefix = node.NODE if prefix is None else prefix
    for name, field in fields_of(type(node)).items():
        key, value, facts = f"{prefix}{field.alias or name}", getattr(node, name), facts_of(field)
        if isinstance(value, Checked):
            yield from problems_of(value, f"{key}.")
        elif facts.get("required") and not value:
            yield f"{key}: expected {facts['required']}"
        elif value is not None:
            yield from facts["check"](value) if facts.get("check") else ()
            if facts.get("is_path") and (scheme := _ADDRESS.match(value)):
                yield from _address_problems(key, scheme, can_be=facts["is_address"])
    yield from node.problems()


def _address_problems(key: str, scheme: re.Match[str], *, can_be: bool) -> Iterator[str]:
    # the rest of an address may contain a password and is not shown
    if not can_be:  # otherwise a local folder called `s3:` would be created
        yield (
            f"{key}: expected a local path, found an address ({scheme[0]}...); addresses are read as dataset.path "
            "by train and eval, and as input by predict, forecast, inspect and report"
        )
    elif scheme[1] not in SCHEMES:
        schemes = ", ".join(f"{name}://" for name in SCHEMES)
        yield f"{key}: expected a local path or one of {schemes}, found {scheme[0]}..."


adapter: Callable[[type], TypeAdapter[Any]] = cache(TypeAdapter)
"""Reads plain values into a class of settings."""


@contextmanager
def refusing_values(schema: type[Checked]) -> Iterator[None]:
    """Raise pydantic's errors about values of a class as one InputError."""
    try:
        yield
    except ValidationError as error:
        raise InputError("; ".join(_sentences(schema, error))) from None


TO_LIST = " (list them with --cfg job)"
"""How a command lists its settings."""
_EXPECTED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("dataclass_type", "dict_type"), f"nested keys{TO_LIST}"),
    "string_type": "text",
    "list_type": "a list [...]",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
}
"""Kinds of errors of pydantic, and what was expected in our words."""


def _sentences(schema: type[Checked], error: ValidationError) -> Iterator[str]:
    expected: dict[str, list[str]] = {}  # several for a key whose values are of several types
    found: dict[str, Any] = {}
    for each in error.errors(include_url=False):
        key, value = _key(schema, each["loc"]), each["input"]
        if each["type"] == "unexpected_keyword_argument":
            yield unknown(key, [*keys_of(schema, schema.NODE)])
        elif each["type"] == "value_error":
            yield str(each["ctx"]["error"])
        elif each["type"] == "string_type" and isinstance(value, bool | int | float):
            yield (
                f"{key}: expected text, found {str(value).lower()}, which may have been written otherwise (1.10 is "
                "read as 1.1); put it in quotes"
            )
        else:
            bounds = {name: f"{x:.10g}" for name, x in each.get("ctx", {}).items() if isinstance(x, int | float)}
            said = _EXPECTED.get(each["type"], each["msg"]).format(**bounds)
            if each["type"] in ("enum", "literal_error"):
                said = f"one of {each['ctx']['expected'].replace(chr(39), '').replace(' or ', ', ')}"
            expected.setdefault(key, []).append(said)
            found[key] = value
    for key, words in expected.items():
        yield f"{key}: expected {' or '.join(dict.fromkeys(words))}, found {_shown(found[key])}"


def _key(schema: Any, place: Sequence[str | int]) -> str:
    """The dotted key of a place in pydantic's words, which also name the members of unions."""
    key = schema.NODE
    for step in place:
        if isinstance(step, int):
            key += f"[{step}]"
        elif schema is not None:
            key += f"{'' if key[-1:] in ('', '.') else '.'}{step}"
            field = fields_of(schema).get(step)
            default = None if field is None else default_of(field)
            schema = type(default) if isinstance(default, Checked) else None
    return key


def _shown(value: Any) -> str:
    constants = {None: "null", True: "true", False: "false"}
    return constants[value] if value is None or isinstance(value, bool) else repr(value)[:100]


OTHER_NAMES = {
    **dict.fromkeys(("learning_rate", "rate", "lr_rate", "max_lr"), ("optim.lr",)),
    **dict.fromkeys(("epochs", "num_epochs", "train_epochs", "n_epochs"), ("trainer.max_epochs",)),
    **dict.fromkeys(("steps", "max_iters"), ("trainer.max_steps",)),
    **dict.fromkeys(("batch", "train_batch_size"), ("trainer.batch_size", "batch_size")),
    **dict.fromkeys(("horizon", "h", "prediction_length", "fh", "n_ahead"), ("pred_len", "horizon")),
    **dict.fromkeys(("pred_len", "forecast_horizon", "output_chunk_length"), ("horizon", "pred_len")),
    **dict.fromkeys(("lookback", "input_len", "input_size", "context_length", "input_chunk_length"), ("seq_len",)),
    **dict.fromkeys(("freq",), ("dataset.frequency",)),
    **dict.fromkeys(("heads", "nhead"), ("model.n_heads",)),
    **dict.fromkeys(("e_layers",), ("model.encoder_stacks",)),
    **dict.fromkeys(("d_layers",), ("model.decoder_layers",)),
    **dict.fromkeys(("root_path", "data_path"), ("dataset.path", "input")),
    **dict.fromkeys(("unique_id", "id_col"), ("dataset.series_col",)),
    **dict.fromkeys(("ds", "time_column"), ("dataset.time_col",)),
}
"""Names of keys in other programs, or in other commands -> the names here, of which a command has one."""


HORIZON = [name for name, ours in OTHER_NAMES.items() if "horizon" in ours]
"""Other names of the horizon."""


def unknown(key: str, keys: Sequence[str]) -> str:
    """The message for an unknown key, with similar keys of the command."""
    last, by_last = key.rpartition(".")[2], dict[str, list[str]]()  # to find optim.lr for lr
    for name in keys:
        by_last.setdefault(name.rpartition(".")[2], []).append(name)
    groups = sorted({name.partition(".")[0] for name in keys})
    close = [other for other in OTHER_NAMES.get(last, ()) if other in keys][:1]
    if not close:
        alike = [name for ending in get_close_matches(last, by_last, n=2, cutoff=0.7) for name in by_last[ending]]
        close = [*by_last.get(last, []), *get_close_matches(key, [*groups, *keys], n=3), *alike][:4] or groups
    close = [name for name in keys if name.startswith(f"{key}.")][:3] or close
    return f"unknown key {key!r}: expected one such as {', '.join(dict.fromkeys(close))}{TO_LIST}"
