"""Commands that `informer inspect` proposes: they forecast a file, or train on it."""

from dataclasses import asdict
from pathlib import Path

from informer.config.commands import InspectConfig
from informer.config.dataset import DatasetConfig
from informer.config.lengths import WindowSizes
from informer.config.overrides import changed_settings, shell_command


def commands(
    path: Path, dataset: DatasetConfig, sizes: WindowSizes | None, *, target: str | None, several: bool
) -> list[str]:
    """Commands that forecast with a report, and that only train; `several`: there is more than one column."""
    train = f"  {training_command(path, dataset, sizes, target)}"
    forecast = forecast_lines(str(path), dataset, target, several=several)
    return [*forecast, "train:    without forecasts and report", train]


def forecast_lines(path: str, dataset: DatasetConfig, target: str | None, *, several: bool) -> list[str]:
    """Command that forecasts with a report; `several` as in `commands`."""
    target_settings = [] if target is None else [("target", target)]
    hint = "" if target_settings or not several else "; target=COLUMN forecasts one column from all"
    command = shell_command("forecast", path, *_dataset_settings(dataset), *target_settings)
    return [f"forecast: with a report; the model is chosen on held-out rows{hint}", f"  {command}"]


def inspect_lines(path: str, dataset: DatasetConfig) -> list[str]:
    """Command that inspects each series of a file."""
    return ["inspect:  each of them", f"  {shell_command('inspect', path, *_dataset_settings(dataset))}"]


def training_command(path: Path, dataset: DatasetConfig, sizes: WindowSizes | None, target: str | None = None) -> str:
    """Shell command that trains on a file with these settings; default settings are left out."""
    lengths = [] if sizes is None else changed_settings("", asdict(sizes), asdict(InspectConfig().sizes))
    last = [] if target is None else [("target", target)]
    return shell_command(
        "train", "dataset=csv", ("dataset.path", path), *_dataset_settings(dataset), *lengths, "model=auto", *last
    )


def _dataset_settings(dataset: DatasetConfig) -> list[str]:
    return changed_settings("dataset", asdict(dataset), asdict(DatasetConfig()))
