"""Golden runs: whole runs through the public commands, whose results are stored next to this file, one file each.

They guard changes that must not change results. Only commands and the files that they write are used.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from entry_points import done
from golden_inputs import INPUTS, write

STORED = Path(__file__).parent / "results"
MOST_VALUES = 8
"""Values stored of a longer column, evenly spaced."""
DIGITS = 6
CLOSE = 3e-4
"""Relative tolerance for numbers, of columns relative to their largest value: processors round differently, which 12
steps of `informer_long` make 1.4e-4."""
CLOSE_TEXT = 0.02
"""Relative tolerance for numbers in sentences, which have few digits."""

SPLIT = "dataset.split.train=0.6 dataset.split.val=0.2 dataset.split.test=0.2"
STEPS = "trainer.max_steps=12 trainer.batch_size=16"
LARGE = f"{STEPS} optim.lr=5e-3 model.distil_norm=false"
"""Few steps, but large ones, so that what training does is seen in the forecasts."""
SMALL = f"{STEPS} optim.lr=2e-4"
"""With normalised distilling, whose convolution has a bias without gradient: Adam makes whole steps of its rounding
errors, and the running mean, which removes the bias from the forecasts, follows late."""
TINY = f"model=tiny {LARGE}"
SIZES = "model.d_model=16 model.n_heads=2 model.d_ff=32"
LSTMA = f"model=lstma model.d_model=8 {STEPS} optim.lr=5e-3"
ROLLING = "predict input={name}.csv mode=rolling stride=5"
PREDICT = "predict input={name}.csv"
FURTHER = "predict input={name}.csv horizon=15"
SCORE = "score forecasts=1/{name}.forecast.csv actuals={name}.newer.csv history={name}.csv season=7"
UPDATED = ("predict checkpoint=1 input={name}.newer.csv",)

CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {}
"""By name: input; settings of training; further commands, by default a forecast of the rows after the file. The k-th
command writes into the folder k, training into 0. {name} is the input."""


def _case(name: str, data: str, settings: str, *then: str) -> None:
    CASES[name] = data, settings, then or (PREDICT,)


_MORE = {"panel": (f"{SCORE} dataset.series_col=store",), "two_seasons": ("watch input={name}.newer.csv",)}
for _name, (_, _settings) in INPUTS.items():
    _further = () if "future_covariates" in _settings else (FURTHER,)
    _case(f"linear_{_name}", _name, "model=linear", PREDICT, *_further, ROLLING, *_MORE.get(_name, ()))
    # after larger steps on covariates, ProbSparse attention selects other queries where a processor rounds differently
    _case(f"tiny_{_name}", _name, f"model=tiny {SMALL}" if _name == "covariates" else TINY, PREDICT, ROLLING)

for _data in ("long", "panel"):
    _case(f"linear_plus_{_data}", _data, "model=linear_plus")

for _skip in ("none", "linear", "ridge", "maps"):
    _how = f"{TINY} attn=full model.skip={_skip}"
    _case(f"one_pass_{_skip}", "covariates", _how, PREDICT, "eval plots=none model.decoding=step")
    _case(f"step_{_skip}", "covariates", f"{_how} model.decoding=step")
    if _skip in ("ridge", "maps"):  # a network that does not improve on these within its steps would not be seen
        _how = _how.replace("max_steps=12", "max_steps=36")
    if _skip != "linear":
        _case(f"one_pass_{_skip}_panel", "panel", f"{_how} model.instance_norm=true")
        _case(f"step_{_skip}_panel", "panel", f"{_how} model.instance_norm=true model.decoding=step")

_DECODED = f"{LARGE} model.decoding=step"
_MAPS = f"model=tiny {_DECODED} model.skip=maps"
_REFITTED = "trainer.combine=[naive] trainer.refit=true"
_case("one_pass_maps_floor", "gaps", f"{TINY} model.skip=maps model.floor=true {_REFITTED}", PREDICT, ROLLING)
_case("step_maps_varying", "gaps", f"{_MAPS} model.varying=[day,last] model.channel_independent=true")
_case("step_ridge_categories", "categories", f"model=tiny {SMALL} model.decoding=step model.skip=ridge")
_case("linear_varying", "two_seasons", "model=linear model.varying=[week,spread] trainer.refit=true")
_ONE = "model.own_maps=false model.other_columns=false model.average=1"
_case("linear_one_map", "gaps", f"model=linear {_ONE} model.floor=true")

for _decoding in ("one_pass", "step"):
    for _skip in ("none", "maps"):
        _how = f"{TINY} model.decoding={_decoding} model.skip={_skip} loss=quantile"
        _case(f"quantile_{_decoding}_{_skip}", "counts", _how, PREDICT, FURTHER)
_case("quantile_ridge_covariates", "covariates", f"{TINY} loss=quantile model.skip=ridge", PREDICT, ROLLING)
_case("quantile_lstma", "gaps", f"{LSTMA} loss=quantile")

for _data in ("panel", "covariates", "gaps", "categories"):
    _case(f"lstma_{_data}", _data, LSTMA)

_case("small_monthly", "monthly", f"model=small {LARGE}")
_case("small_patches", "two_seasons", f"model=small {LARGE} model.patch_len=12 model.channel_independent=true")
_case(
    "informer_long", "long", f"model=informer {SIZES} {SMALL} model.embed=fixed model.mix=true loss=mae optim.ema=0.9"
)
_case(
    "informer_full_attention", "long", f"model=informer {SIZES} {LARGE} attn=full model.distil=max model.embed=learned"
)
_case("informer_offset", "covariates", f"model=informer {SIZES} {SMALL} model.offset=2 model.decoding=step loss=huber")
_case(
    "informer_attributes",
    "attributes",
    f"model=informer {SIZES} {LARGE} model.series_embedding=4 scaler.per_series=false",
)
_case("informer_plus_long", "long", f"model=informer_plus {LARGE} optim.schedule=cosine loss=spectral")
_case("informer_plus_attributes", "attributes", f"model=informer_plus {LARGE} model.skip=maps scaler=minmax")
_case("informer_stack_long", "long", f"model=informer_stack {SIZES} {SMALL}")
_case("informer_stack_step", "covariates", f"model=informer_stack {SIZES} {_DECODED} model.distil=none")
_case("roots", "counts", "model=linear scaler.transform=auto trainer.combine=[naive] non_negative=all")

UPDATE = "update input={name}.newer.csv"
_case("update_linear_short", "short", "model=linear", UPDATE, *UPDATED)
_case("update_linear_panel", "panel", "model=linear trainer.refit=true", UPDATE, *UPDATED)
_case("update_tiny_steps", "panel", TINY, f"{UPDATE} steps=4", *UPDATED)
_case("update_maps_steps", "short", f"{TINY} model.skip=maps", f"{UPDATE} steps=4", *UPDATED)
# no limit of time: no clock decides what is tried
_case("auto", "short", "model=auto trainer.time_budget_minutes=null trainer.max_steps=4")
# the one case that does not begin with training
_case("forecast", "two_seasons", "", "forecast {name}.csv model=linear budget=60")


def run(name: str, folder: Path) -> dict[str, Any]:
    """The results of a case, by command; `folder` must be empty and the working directory."""
    data, settings, then = CASES[name]
    write(data, folder)
    future = f" future={data}.future.csv" if (folder / f"{data}.future.csv").exists() else ""
    training = f"train dataset=csv dataset.path={data}.csv {SPLIT} {INPUTS[data][1]} trainer.tracker=[] {settings}"
    results = {}
    for k, line in enumerate([training, *then] if settings else then):
        command, *words = line.replace("{name}", data).split()
        words += [f"run_dir={k}" if command == "train" else f"output={k}"]
        if command in ("predict", "eval", "watch", "update") and "checkpoint=" not in line:
            words.append("checkpoint=0")
        if command == "predict":
            words += ["digits=null", *([] if "rolling" in line else ["plots=false", *future.split()])]
        done(command, *words)
        results[f"{k} {command}"] = _results(folder / str(k))
    return json.loads(text(results))


def _results(folder: Path) -> dict[str, Any]:
    """What the files in the folder of a command contain."""
    found = {}
    for path in sorted(folder.rglob("*")):
        for ending, reader in READERS.items():
            if path.name.endswith(ending):
                found[path.name] = reader(path)
    return found


def _choices(path: Path) -> dict[str, Any]:
    """Losses by epoch, and sentences on what was fitted and chosen."""
    lines = [line.partition(" INFO ")[2] for line in path.read_text().splitlines()]
    epochs = [match.groups() for line in lines if (match := re.match(r" +\d+ +(\d\S+) +(\d\S+)", line))]
    begins = (
        "linear", "scaler.transform=", "forecast: ", "forecasts of ", "ridge: ", "seasonal naive: ", "the network",
    )  # fmt: skip
    said = [line for line in lines if line.startswith(begins) and " the best baseline" not in line]
    return {"losses": [float(loss) for losses in epochs for loss in losses], "said": said}


def _config(path: Path) -> dict[str, Any]:
    """Settings that the program may choose."""
    saved = yaml.safe_load(path.read_text())
    chosen = {key: saved[key] for key in ("seq_len", "label_len", "pred_len")}
    chosen |= {key: saved["model"].get(key) for key in ("maps", "varying", "varying_penalty", "floor", "patch_len")}
    return chosen | {"transform": saved["scaler"]["transform"]}


def _metrics(path: Path) -> dict[str, Any]:
    """Scores without those that depend on intervals, and without percentages of values close to zero."""
    saved = json.loads(path.read_text())
    scores: dict[str, Any] = {"windows": saved["windows"], "best_baseline": saved["best_baseline"]}
    for model, by_units in saved["scores"].items():
        for units, parts in by_units.items():
            for metric in ("mse", "mase") if units == "scaled" else ("mae",):
                by_step, by_column = parts["by_step"][metric], [each[metric] for each in parts["by_column"].values()]
                scores[f"{model} {units} {metric}"] = [parts["overall"][metric], *_some(by_step), *by_column]
    return scores


def _table(path: Path) -> dict[str, Any]:
    """Of each column of numbers the mean and some values, of other columns the first and last; without intervals."""
    table = pd.read_csv(path)
    columns: dict[str, Any] = {"rows": len(table)}
    for name, values in table.items():
        if pd.api.types.is_numeric_dtype(values) and not re.search(r"_(lo|hi)\d+$|^actual$", str(name)):
            columns[str(name)] = [float(values.mean()), *_some(values.tolist())]
        elif not pd.api.types.is_numeric_dtype(values):
            columns[str(name)] = [*values.iloc[[0, -1]]]
    return columns


def _rolling_metrics(path: Path) -> dict[str, float]:
    """Scores over all steps and columns."""
    table = pd.read_csv(path)
    taken = table[(table["column"] == "all") & (table["step"] == "all") & table["metric"].isin(["mse", "mase"])]
    names = taken["model"] + " " + taken["units"] + " " + taken["metric"]
    return dict(zip(names, taken["value"].tolist(), strict=True))


def _some(values: list[Any]) -> list[Any]:
    """At most MOST_VALUES of them, the first and the last too."""
    places = np.linspace(0, len(values) - 1, min(len(values), MOST_VALUES)).astype(int)
    return [values[place] for place in places]


READERS: dict[str, Callable[[Path], Any]] = {
    "train.log": _choices,
    "config.yaml": _config,
    "run.json": lambda path: (json.loads(path.read_text()).get("search") or {}).get("chosen"),
    ".forecast.csv": _table,
    ".rolling.csv": _table,
    ".rolling.metrics.csv": _rolling_metrics,
    "watch.json": lambda path: json.loads(path.read_text())["mse"],
    "scores.json": lambda path: json.loads(path.read_text())["overall"],
    "metrics.json": _metrics,
}
"""What is stored of a file, by the end of its name."""


def text(value: Any, indent: str = "") -> str:
    """JSON with a line for each list, and numbers of DIGITS digits."""
    if isinstance(value, dict):
        inner = ",\n".join(f"{indent} {json.dumps(key)}: {text(each, f'{indent} ')}" for key, each in value.items())
        return f"{{\n{inner}\n{indent}}}"
    return json.dumps(_rounded(value), ensure_ascii=False)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def differences(found: Any, stored: Any, place: str = "") -> Iterator[str]:
    """A line for each difference that is not due to rounding."""
    if isinstance(found, dict) and isinstance(stored, dict):
        for key in {**stored, **found}:
            if key in stored and key in found:
                yield from differences(found[key], stored[key], f"{place}/{key}")
            else:
                yield f"{place}/{key}: only in the {'stored' if key in stored else 'new'} results"
    elif isinstance(found, list) and isinstance(stored, list) and len(found) == len(stored):
        largest = max((abs(each) for each in stored if _is_number(each)), default=0.0)
        for i, (one, other) in enumerate(zip(found, stored, strict=True)):
            if _is_number(one) and _is_number(other):
                if abs(one - other) > CLOSE * largest:
                    yield f"{place}[{i}]: stored {other}, found {one}"
            else:
                yield from differences(one, other, f"{place}[{i}]")
    elif isinstance(found, str) and isinstance(stored, str):
        if not _same_sentence(found, stored):
            yield f"{place}:\n  stored {stored}\n  found  {found}"
    elif _is_number(found) and _is_number(stored):
        if abs(found - stored) > CLOSE * abs(stored):
            yield f"{place}: stored {stored}, found {found}"
    elif found != stored:
        yield f"{place}: stored {stored}, found {found}"


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)?")


def _same_sentence(one: str, other: str) -> bool:
    """Whether the words are the same and the numbers close."""
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=False)
    return NUMBER.sub("#", one) == NUMBER.sub("#", other) and all(
        math.isclose(float(a), float(b), rel_tol=CLOSE_TEXT) for a, b in pairs
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
