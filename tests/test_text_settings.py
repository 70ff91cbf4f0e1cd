"""Text settings get what a user types, by every way in, and what is printed can be typed again."""

import re
import shlex
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import hydra
import numpy as np
import pandas as pd
import pytest
import yaml
from entry_points import COMMANDS, ROOT, SMALL, call, done, refusal
from omegaconf import OmegaConf
from pydantic.fields import FieldInfo

from informer import Forecaster, InputError
from informer.commands.cli import settings_class
from informer.config import conversion
from informer.config.compose import read_words
from informer.config.conversion import flat, read_saved_yaml, to_plain
from informer.config.fields import keys_of, text_kind
from informer.config.hydra_compose import compose, register, train_words
from informer.config.overrides import escaped, literal, overrides_of, shell_command, to_display, unquoted

NUMBERS = ["1.10", "1e3", "+5", "-5", ".5", "0.50", "1_000", "0x10", "0o7", "007", "12:30", "2020-01-01", "inf", "nan"]
WORDS = ["true", "Yes", "on", "off", "None", "~", "", "kW", "[kW]", "Last [kW]", "a]b", "{a: 1}", "${seed}", "\\${x}"]
SIGNS = [
    "a,b", "a: b", "a=b", "a b", " a ", "it's", '5" pipe', "a'b'c", "a\\", "\\'", "a\nb", "$HOME", "ünïcödé °C", "#",
    "!x",
]  # fmt: skip
NAMES = [*NUMBERS, *WORDS, *SIGNS, "glob(*)", "choice(1,2)", "&a", "*a", "@", "%", "x" * 300]
QUOTED = ["'a'", '"a"', "''", "null"]
"""Names that are typed in another pair of quotes."""

LISTS: list[tuple[str, list[str]]] = [
    ("[1.10]", ["1.10"]),
    ("[1e3,+5]", ["1e3", "+5"]),
    ("[ 1.10 , true,null ]", ["1.10", "true", "null"]),
    ("[Last [kW]]", ["Last [kW]"]),
    ("[Last [kW, avg],b]", ["Last [kW, avg]", "b"]),
    ("[a],b]", ["a]", "b"]),
    ("[a[,b]", ["a[", "b"]),
    ("['a, b',\"c'\",it's,'d]", ["a, b", "c'", "it's", "'d"]),
    (r"['it\'s',a\,'b\\']", ["it's", "a\\", "b\\"]),
    ("[${seed},a: b,x=y,{z}]", ["${seed}", "a: b", "x=y", "{z}"]),
    ("[]", []),
    ("['']", [""]),
]


def given(command: str, *words: str) -> dict[str, Any]:
    """The settings that a command is called with, by dotted key."""
    if command != "train":
        return flat(to_plain(read_words(settings_class(command), words)))
    register()
    with hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        composed = hydra.compose(command, overrides=train_words(words))
    return flat(OmegaConf.to_container(composed, resolve=True))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_text_setting_of_every_command_gets_the_text_as_typed(command: str, folder: Path) -> None:
    """Red if one name is parsed, for one field of a settings class that is text."""
    texts = {key: field for key, field in keys_of(settings_class(command)).items() if text_kind(field)}
    names = [*((name, name) for name in NAMES), *((name, to_display(name)) for name in QUOTED)]
    for shift in range(0, len(names), 7 if command == "train" else 20):  # another name for every field each time
        turned = dict(zip(texts, names[shift:] + names, strict=False))
        words = [
            f"{key}={to_display([name, name]) if text_kind(texts[key]) is list else typed}"
            for key, (name, typed) in turned.items()
        ]
        settings = given(command, *words)
        for key, (name, _) in turned.items():
            assert settings[key] == ([name, name] if text_kind(texts[key]) is list else name)


@pytest.mark.parametrize(("typed", "names"), LISTS)
def test_a_list_is_split_only_at_its_own_commas(typed: str, names: list[str], folder: Path) -> None:
    assert given("predict", f"dataset.missing_values={typed}")["dataset.missing_values"] == names


def test_null_is_none_but_where_a_column_is_named(folder: Path) -> None:
    """Red if a column called null cannot be forecast, or null is the name of a file."""
    settings = given(
        "train", "target=null", "dataset.time_col=null", "dataset.path=null", "targets=null", "data_dir='null'"
    )
    found = [settings[key] for key in ("target", "dataset.time_col", "dataset.path", "targets", "data_dir")]
    assert found == ["null", "null", None, None, "null"]


def test_what_is_printed_can_be_typed_again(folder: Path) -> None:
    """Red if a shell or a command reads a printed setting otherwise: against `shlex` and the command itself."""
    names = [*NAMES, *QUOTED]
    for name in names:
        _, _, *words = shlex.split(shell_command("forecast", ("target", name)))
        assert given("forecast", *words)["target"] == name
        recorded = train_words(words)  # the command of a run, which its report shows
        assert train_words([*map(unquoted, recorded)]) == recorded
    _, _, *words = shlex.split(shell_command("train", ("targets", names)))
    assert given("train", *words)["targets"] == names


@pytest.mark.parametrize("name", ["1.10", "true", "${seed}", "a\nb", "null"])
def test_a_saved_configuration_keeps_the_text(name: str, tmp_path: Path) -> None:
    """Red if the yaml file of a run, read as one or by `yaml`, has a number or another word."""
    settings = compose({"target": name, "targets": [name], "dataset.missing_values": ["x"]})
    (tmp_path / "config.yaml").write_text(conversion.to_yaml(settings))
    plain = {key: value for key, value in read_saved_yaml(tmp_path / "config.yaml").items() if key != "defaults"}
    assert conversion.from_plain(plain) == conversion.from_plain(conversion.to_plain(settings))
    assert conversion.from_plain(plain).target == name
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["targets"] == [escaped(name)]


LITERALS: list[tuple[str, Any]] = [
    *(("48", 48), ("-1", -1), ("1_000", 1000), ("1e3", 1000.0), ("5.", 5.0), (" 7 ", 7), ("inf", float("inf"))),
    *(("true", True), ("False", False), ("null", None), ("NO", "NO"), ("DE-BY", "DE-BY"), ("'1'", "1"), ("", "")),
    *(("[80,95]", [80, 95]), ("[]", []), ("[DE, NO]", ["DE", "NO"]), ("[[1,2],null]", [[1, 2], None])),
]


@pytest.mark.parametrize(("typed", "value"), LITERALS)
def test_other_settings_get_numbers_flags_and_lists(typed: str, value: Any) -> None:
    """Red if a word is read as YAML does, where NO is false; the type is compared too."""
    assert repr(literal(typed)) == repr(value)


@pytest.mark.parametrize(("written", "shown"), [("1.10", "1.1"), ("yes", "true"), ("[a, 1_000]", "1000")])
def test_a_number_in_a_configuration_file_is_no_text(written: str, shown: str, folder: Path) -> None:
    """Red if YAML's number 1.1 is taken for the column 1.10."""
    key = "targets" if written[0] == "[" else "target"
    Path("mine.yaml").write_text(f"defaults: [train, _self_]\n{key}: {written}\n")
    line = refusal("train", "--config-dir=.", "--config-name=mine", "dataset=sample")
    place = f"{key}[1]" if key == "targets" else key
    assert f"{place}: expected text, found {shown}" in line
    assert "quotes" in line
    with pytest.raises(InputError, match=re.escape(f"{place}: expected text, found {shown}")):
        conversion.from_plain(yaml.safe_load(f"{key}: {written}"))


def test_labels_from_python_are_names(folder: Path) -> None:
    """Red if a label that is a number or a flag is written otherwise than pandas writes it."""
    values = {
        "target": np.float64(1.5),
        "targets": pd.Index([3, True, 2.50, "1.10"]),
        "trainer": {"max_steps": np.int64(3)},
    }
    settings = compose(values)
    assert (settings.target, settings.targets, settings.trainer.max_steps) == ("1.5", ["3", "True", "2.5", "1.10"], 3)
    assert list(overrides_of({"a": np.float64(0.5), "b": {"c": None}}, {})) == ["a=0.5", "b.c=null"]


@pytest.mark.slow
def test_a_sweep_is_split_first(folder: Path) -> None:
    """Red if a part of a sweep is parsed, or the jobs are named otherwise than typed."""
    frame = pd.DataFrame({"time": pd.date_range("2024", periods=320, freq="h")})
    for place, name in enumerate(["1.1", "1.10", "a,b"]):
        frame[name] = 100.0 * (place + 1) + np.sin(np.arange(320) / 4)
    frame.to_csv("f.csv", index=False)
    small = ["dataset=csv", "dataset.path=f.csv", *SMALL, "trainer.max_steps=1", "features=S"]
    outcome = done("train", "--multirun", *small, "target=1.10,'a,b'")
    configs = [yaml.safe_load(path.read_text()) for path in sorted(Path("runs").glob("2*/config.yaml"))]
    assert sorted(config["target"] for config in configs) == ["1.10", "a,b"]
    assert "job 0: target=1.10" in outcome.out
    assert call("train", *small, "target=1.10,a").err.startswith("error: target=1.10,a: f has no such column")


@pytest.mark.slow
def test_the_column_is_the_one_that_was_typed(folder: Path) -> None:
    """Red if forecasts, or those of the printed command, are of the column 1.1, or of one that is left out."""
    frame = pd.DataFrame({"time": pd.date_range("2024", periods=400, freq="h")})
    for place, name in enumerate(["1.1", "1.10", "1e3", "null"]):
        frame[name] = 1000.0 * (place + 1) + np.sin(np.arange(400) / 4)
    frame.to_csv("f.csv", index=False)
    fast = ["model=linear", "horizon=4"]
    outcome = done("forecast", "f.csv", "target=1.10", "dataset.exclude=[1e3,null]", *fast, "output=one")
    ahead = pd.read_csv("one/forecasts/f.forecast.csv")
    assert np.allclose(ahead["1.10"], 2000.0, atol=5)
    assert "target 1.10 from 2 columns" in outcome.out
    (repeat,) = (line for line in outcome.out.splitlines() if line.startswith("Repeat"))
    done("forecast", *shlex.split(repeat)[3:], "output=two")
    assert Path("two/forecasts/f.forecast.csv").read_text() == Path("one/forecasts/f.forecast.csv").read_text()
    settings = {"model": "linear", "seq_len": 24, "label_len": 12, "pred_len": 4}
    forecaster = Forecaster(target="1.10", features="S", **settings).fit(frame)
    assert list(forecaster.predict(frame).columns) == ["time", "1.10"]


def wrong_values(field: FieldInfo) -> Iterator[object]:
    """A word where the type is a number, a flag or a choice, and the numbers just beyond each bound."""
    kinds = [*get_args(field.annotation), field.annotation]
    if str not in kinds and any(isinstance(kind, type) and issubclass(kind, int | float | Enum) for kind in kinds):
        yield "perhaps"
    beyond = 1 if int in kinds else 0.5
    for bound in field.metadata:
        steps = {"ge": -beyond, "gt": 0, "le": beyond, "lt": 0}
        yield from (getattr(bound, name) + step for name, step in steps.items() if hasattr(bound, name))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_declared_type_and_range_is_checked(name: str) -> None:
    """Red if a command takes a value that the declaration of its key excludes, or does not name the key."""
    wrong = {key: [*wrong_values(field)] for key, field in keys_of(settings_class(name)).items()}
    for place in range(max(map(len, wrong.values()))):
        words = [f"{key}={values[place]}" for key, values in wrong.items() if place < len(values)]
        for chunk in (words[first : first + 12] for first in range(0, len(words), 12)):
            line = refusal(name, *chunk)
            assert [word for word in chunk if f"{word.partition('=')[0]}: expected " not in line] == [], line
