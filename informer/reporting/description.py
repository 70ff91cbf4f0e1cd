"""The task of a run in words: what is forecast, from what, by which model and command."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from informer.checkpoint.facts import read_facts
from informer.checkpoint.format import COMBINED
from informer.checkpoint.paths import CONFIG, LOSSES
from informer.config.conversion import flat, from_plain
from informer.config.overrides import command_line, to_display, unquoted
from informer.config.plain import read_saved_yaml
from informer.data.read.frequency import Frequency
from informer.data.read.step_words import adjective, lasting
from informer.data.read.table import name_of
from informer.errors import counted, listed
from informer.inference.predictor import TrainedModel
from informer.linear.shares import Shares
from informer.reporting.content import Content, LossCurves
from informer.training.saved_frame import NAME
from informer.training.tracking.loss_table import LossTable, note_of, units_of


def described(folder: Path, source: Path, model: TrainedModel) -> Content:
    """Content that needs no data: names, configuration, facts about the run."""
    run = source if source.is_dir() else source.parent
    config, sizes = model.checkpoint.config, model.sizes
    facts = read_facts(run)
    name = str(config["dataset"]["name"])
    if name == "csv":  # the type of dataset, not its name
        path = Path(str(model.checkpoint.data.get("path", name)))
        name = name_of(path)
        if name == NAME and path.parent.name == run.resolve().name:  # a table from Python, saved in the run directory
            name = listed(model.columns.targets, 2)
    frequency = Frequency.parse(model.checkpoint.frequency)
    n_parameters = sum(parameter.numel() for parameter in model.model.parameters())
    content = Content(
        title=f"{name}: {lasting(sizes.pred_len, frequency)} ahead",
        subtitle=_task(model, frequency),
        verdict="No scores were saved, and the training data is not available.",
        columns=model.columns.targets,
        main=model.columns.main or "",
        command=command_of(facts.get("command", [])),
        settings={key: to_display(value) for key, value in flat(_settings(run, config)).items()},
    )
    versions = facts.get("versions", {})
    content.facts = {
        "run": str(folder),
        "started": str(facts.get("started", "")).replace("T", " ").replace("+00:00", " UTC"),
        "model": _made_of(model),
        "parameters": f"{n_parameters:,}",
        "steps trained": (
            f"{model.checkpoint.step:,} ({counted(model.checkpoint.epoch, 'epoch')})" if model.checkpoint.step else ""
        ),
        "data": str(model.checkpoint.data.get("path", "")),
        "sha256 of the data": str(model.checkpoint.data.get("sha256", "")),
        "commit": str(facts.get("commit") or ""),
        "versions": ", ".join(f"{key} {value}" for key, value in versions.items() if value),
    }
    content.losses = _losses(run, config, model)
    return content


def _task(model: TrainedModel, frequency: Frequency) -> str:
    """What is forecast, from what, and with which model, as text."""
    targets, inputs = model.columns.targets, model.columns.inputs
    what = targets[0] if len(targets) == 1 else counted(len(targets), "column")
    history = lasting(model.sizes.seq_len, frequency)
    source = f"of {counted(len(inputs), 'column')}" if len(inputs) > len(targets) else "of history"
    return f"{what}: {adjective(frequency)} forecast from the last {history} {source}. Model: {_made_of(model)}."


def _made_of(model: TrainedModel) -> str:
    """The family of the model, or the parts of a combination with their weights."""
    shares = model.checkpoint.data.get(COMBINED)
    if not shares:
        return str(model.checkpoint.config["model"]["family"])
    return Shares.from_plain(shares).in_words.removeprefix("100% ")


def _losses(run: Path, config: Mapping[str, Any], model: TrainedModel) -> LossCurves | None:
    """The losses of a run; None without a trained epoch."""
    if not (run / LOSSES).exists():
        return None
    table, loss = LossTable.read(run / LOSSES), from_plain(config).loss
    training, validation = ((list(curve), list(curve.values())) for curve in (table.training, table.validation))
    if not training[0]:
        return None
    roots = model.scaler.roots(model.columns.positions(model.columns.targets))
    notes = [note_of(loss), *(f"losses are those of scaled {root}s, unlike the scores" for root in roots)]
    return LossCurves(
        training=training,
        validation=validation,
        baselines=table.baselines,
        units=units_of(loss),
        note="; ".join(filter(None, notes)),
    )


def _settings(run: Path, config: Mapping[str, Any]) -> Mapping[str, Any]:
    path = run / CONFIG
    if not path.exists():
        return config
    return {key: value for key, value in read_saved_yaml(path).items() if key != "defaults"}


def command_of(words: Sequence[str]) -> str:
    """The recorded command as a user types it: `python -m informer.train ...`, or `informer forecast FILE ...`. For a
    run started from Python this is the script; empty for a run started in a notebook.

    Args:
        words: the command, with the keys that replace paths and `model=` for Hydra.
    """
    if not words or "ipykernel_launcher.py" in words[:2]:
        return ""
    if words[0] == "python":
        return command_line(words)
    script, _, command = words[0].rpartition(" ")
    name = Path(words[0]).stem
    typed = [unquoted(word) for word in words[1:]]
    if "forecast" in (command, name):
        files = [word for word in typed if word.startswith("input=")]
        settings = [re.sub("^model_name=", "model=", word) for word in typed if word not in files]
        typed = [*(word.partition("=")[2] for word in files), *settings]
    return command_line([*([script, command] if script else ["python", "-m", f"informer.{name}"]), *typed])
