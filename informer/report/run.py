"""Content of a report on a trained model, from its run directory and, if available, its data.

Scores saved by a run or an evaluation (`metrics.json`), as parts of a report.

Checks of the data for a report: drift, constant columns, repeated values, outliers.

Errors over the test windows: by hour, weekday or month, and without the network.

The task of a run in words: what is forecast, from what, by which model and command.
"""

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from informer import checkpoint as checkpoints
from informer.base.errors import InputError, counted, listed, skill_text
from informer.checkpoint.format import COMBINED
from informer.checkpoint.paths import CONFIG, LOSSES, METRICS_FILE, read_facts
from informer.config.commands import EvalDataset
from informer.config.conversion import flat, from_plain
from informer.config.overrides import command_line, to_display, unquoted
from informer.config.plain import nan_if_none, read_saved_yaml
from informer.data.dataset import Data
from informer.data.scaler import ROUNDING, standard_deviation
from informer.data.windows import Batch
from informer.inference.explain import attention_maps
from informer.inference.model import TrainedModel
from informer.inference.rescore import trained_data
from informer.linear.maps import CombinationWeights
from informer.networks.forecast_model import ForecastModel, forecast_without_network, model_forecast
from informer.read.frequency import Frequency, Unit, adjective, lasting
from informer.read.table import name_of
from informer.report.content import (
    START,
    AttentionPicture,
    Card,
    Content,
    Coverage,
    LossCurves,
    Profile,
    ResidualPlot,
    ScoreRow,
    Tone,
    signed,
)
from informer.report.test_pass import EDGES, TestPass, chosen_windows, gather_tracks
from informer.scoring.baselines import bounded
from informer.scoring.bootstrap import DRAWS, Interval, Winner
from informer.scoring.intervals import nominal
from informer.scoring.metrics import METRICS, WQL
from informer.scoring.scores import ForecastFunction, fit_baselines, score
from informer.training.curves import LossTable, note_of, units_of
from informer.training.run import NAME

log = logging.getLogger(__name__)


TONES = {
    Winner.model: Tone.good,
    Winner.baseline: Tone.bad,
    Winner.neither: Tone.level,
    Winner.noise: Tone.level,
    Winner.few: Tone.level,
    Winner.unknown: Tone.neutral,
}

NAMES = {"ridge": "ridge regression", "seasonal naive": "the seasonal naive", "naive": "the last value repeated"}
"""Baselines as the verdict names them."""


def add_scores(content: Content, metrics: Mapping[str, Any]) -> None:
    """Add verdict, score tables, errors by step and column, and coverage.

    Args:
        content: content of the page.
        metrics: the result of `Evaluation.to_dict`.
    """
    model, scores = str(metrics["model"]), metrics["scores"]
    content.model = model
    skill, rival = nan_if_none(metrics.get("skill")), metrics.get("best_baseline")
    interval = Interval(*map(nan_if_none, metrics.get("skill_interval", (None, None))))
    winner = Winner.of(skill, interval)
    content.tone = TONES[winner]
    content.verdict = str(metrics["verdict"]) if rival is None else _verdict(metrics, winner, skill, rival)
    if warning := metrics.get("warning"):
        content.verdict += f" The {warning}."
    content.remarks = [*_certainty(interval, rival), *metrics.get("remarks", []), *content.remarks]
    content.scaled, content.original = (_table(scores, model, units, rival) for units in ("scaled", "original"))
    scaled = {name: both["scaled"] for name, both in scores.items()}
    content.columns = list(scaled[model]["by_column"])
    content.profiles.append(_profile_of_steps(scaled, model))
    if len(content.columns) > 1:
        content.profiles.append(_profile_of_columns(scaled, content.columns))
    content.coverage = [_coverage(name, means) for name, means in metrics.get("intervals", {}).items()]
    content.cards += _cards(metrics, skill, interval, content)


def _verdict(saved: Mapping[str, Any], winner: Winner, skill: float, rival: str) -> str:
    """The verdict for readers who know no model by name."""
    name, error = NAMES.get(rival, rival), f"its squared error is {skill_text(skill)}"
    if winner is Winner.model:
        return f"The forecast is better than both baselines: {error} than that of {name}."
    if winner is Winner.neither:
        return f"The forecast is as good as {name}, the better baseline."
    if winner is Winner.noise:
        return f"The forecast is as good as {name}, the better baseline: {error}, within noise."
    if winner is Winner.few:
        windows = counted(saved["windows"], "test forecast")
        return f"The forecast cannot be judged from {windows}: {error} than that of {name}, the better baseline."
    if winner is Winner.baseline and math.isfinite(skill):
        return f"The forecast is worse than {name}, the better baseline: {error}."
    return str(saved["verdict"])


def _certainty(interval: Interval, rival: str | None) -> list[str]:
    """Remark on the interval of the skill."""
    if math.isnan(interval.low):
        return []
    return [
        f"the 95 % interval of the skill against {rival}, {_ends(interval)}, is a bootstrap of {DRAWS:,} resamples of "
        "test windows, in blocks of windows that overlap"
    ]


def _ends(interval: Interval) -> str:
    return " to ".join(map(signed, interval))


def _profile_of_steps(scaled: Mapping[str, Any], model: str) -> Profile:
    mse, mae = (
        {name: [nan_if_none(value) for value in scores["by_step"][metric]] for name, scores in scaled.items()}
        for metric in ("mse", "mae")
    )
    steps = range(1, len(mse[model]) + 1)
    return Profile(key="step", title="Error by step ahead", axis="steps ahead", labels=list(steps), mse=mse, mae=mae)


def _profile_of_columns(scaled: Mapping[str, Any], columns: Sequence[str]) -> Profile:
    mse, mae = (
        {
            name: [nan_if_none(scores["by_column"][column][metric]) for column in columns]
            for name, scores in scaled.items()
        }
        for metric in ("mse", "mae")
    )
    return Profile(key="column", title="Error by column", axis="column", labels=list(columns), mse=mse, mae=mae)


def _cards(saved: Mapping[str, Any], skill: float, interval: Interval, content: Content) -> list[Card]:
    overall, rival = saved["scores"][saved["model"]]["scaled"]["overall"], saved.get("best_baseline")
    cards, columns = [], content.columns
    if rival is not None and -math.inf < skill <= -1:
        cards.append(Card(label="Squared error", value=f"{1 - skill:.3g} ×", hint=f"that of {rival}"))
    elif rival is not None and not math.isnan(skill):
        certain = "" if math.isnan(interval.low) else f"; 95 % interval {_ends(interval)}"
        hint = f"reduction of the squared error compared with {rival}{certain}"
        cards.append(Card(label="Skill", value=signed(skill), hint=hint))
    if len(columns) == 1:
        mae = nan_if_none(saved["scores"][saved["model"]]["original"]["overall"]["mae"])
        cards.append(Card(label="Mean absolute error", value=f"{mae:.4g}", hint=f"in units of {columns[0]}"))
    else:
        hint = "of columns scaled to variance 1 in training"
        cards.append(Card(label="Mean squared error", value=f"{nan_if_none(overall['mse']):.4g}", hint=hint))
    if not math.isnan(nan_if_none(overall.get("mase"))):
        cards.append(
            Card(
                label="MASE",
                value=f"{nan_if_none(overall['mase']):.3g}",
                hint="error as a multiple of the seasonal naive's on training rows",
            )
        )
    cards += [
        Card(label=f"{each.name} intervals cover", value=f"{each.overall:.1f} %", hint=f"should be {each.expected:g} %")
        for each in content.coverage[:2]
    ]
    cards.append(Card(label="Test forecasts", value=f"{saved['windows']:,}", hint="of rows not used in training"))
    return cards


def _table(scores: Mapping[str, Any], model: str, units: str, rival: str | None) -> list[ScoreRow]:
    best = nan_if_none(scores[rival][units]["overall"]["mse"]) if rival else math.nan
    rows = []
    for name, by_units in scores.items():
        overall = {metric: nan_if_none(by_units[units]["overall"].get(metric)) for metric in (*METRICS, WQL)}
        skill = 1.0 - overall["mse"] / best if best > 0 else math.nan
        rows.append(ScoreRow(name=name, metrics=overall, skill=skill))
    return rows


def _coverage(name: str, means: Mapping[str, Any]) -> Coverage:
    """Coverage of an interval level (`80`) or of the range between two quantiles (`q10_q90`)."""
    expected = nominal(name)
    return Coverage(
        name=f"{expected:g} %",
        expected=expected,
        overall=nan_if_none(means["overall"]["coverage"]),
        by_step=[nan_if_none(value) for value in means["by_step"]["coverage"]],
        by_column=[nan_if_none(column["coverage"]) for column in means["by_column"].values()],
    )


DRIFT = 1.0
"""Minimum distance between the means of training and test rows, in training standard deviations."""
OUTLIER = 10.0
"""Minimum distance from the median, in robust standard deviations."""
STUCK = 0.2
"""Minimum share of rows that repeat the previous row, in a column with many different values."""
MOST, MOST_LINES = 12, 40
"""Maximum number of problems and of notes listed; the rest are counted."""


def data_problems(data: Data) -> list[str]:
    """One sentence per problem, worst first."""
    problems = sorted((each for group in _all(data) for each in group), key=lambda each: -each[0])
    lines = [line for _, line in problems[:MOST]]
    if len(problems) > MOST:
        lines.append(f"and {len(problems) - MOST} more")
    return lines


def _all(data: Data) -> Iterator[list[tuple[float, str]]]:
    several = len(data.panel) > 1
    for series, split in zip(data.panel, data.splits, strict=True):
        for c, column in enumerate(data.inputs):
            if column in (*data.categories, *data.columns.static_covariates):
                continue  # category codes, and columns that are constant by definition
            where = f"{series.name}, {column}" if several else column
            values = (series.values[rows.start : rows.stop, c] for rows in (split.train, split.test))
            train, test = (array[~np.isnan(array)] for array in values)
            if len(train) and len(test):
                yield list(_problems(where, train, test))


def _problems(
    where: str, train: Float64[np.ndarray, "a"], test: Float64[np.ndarray, "b"]
) -> Iterator[tuple[float, str]]:
    spread = standard_deviation(train)
    if spread == 0.0:
        yield 1e3, f"{where}: constant in the training rows ({train[0]:.6g}); the model cannot learn from it"
        return
    shift = float(test.mean() - train.mean()) / spread
    if abs(shift) > DRIFT:
        way = "above" if shift > 0 else "below"
        yield (
            100 + abs(shift),
            (
                f"{where}: the mean of the test rows is {abs(shift):.1f} training standard deviations {way} that "
                "of the training rows; models fitted on old rows may be off"
            ),
        )
    if len(np.unique(train)) > len(train) / 20:
        still = float((np.diff(train) == 0).mean())
        if still > STUCK:
            yield (
                50 + still,
                f"{where}: {still:.0%} of the training rows repeat the previous value; possibly a stuck sensor",
            )
    median = float(np.median(train))
    deviation = 1.4826 * float(np.median(np.abs(train - median)))
    is_noise = deviation <= ROUNDING * np.spacing(abs(median))
    far = 0 if is_noise else int((np.abs(train - median) > OUTLIER * deviation).sum())
    if 0 < far <= max(3, len(train) // 200):
        worst = train[int(np.abs(train - median).argmax())]
        rows = "row is" if far == 1 else "rows are"
        yield (
            10 + far / 1e6,
            (
                f"{where}: {far} training {rows} more than {OUTLIER:g} robust standard deviations from the median "
                f"({worst:.6g} against {median:.6g})"
            ),
        )


def listed_lines(lines: Sequence[str]) -> list[str]:
    """The first lines, and the number of others."""
    return [*lines[:MOST_LINES], *([f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else [])]


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def calendar_profiles(test_pass: TestPass, data: Data, note: str) -> list[Profile]:
    """Errors by hour and weekday, or by month for steps longer than a day; axes with a single value are left out."""
    unit = data.frequency.unit
    below_day = unit in (Unit.second, Unit.minute, Unit.hour)
    axes = [("hour", "Error by hour of the day", "hour", range(24))] if below_day else []
    if below_day or unit in (Unit.day, Unit.business_day):
        axes.append(("weekday", "Error by weekday", "weekday", WEEKDAYS))  # type: ignore[arg-type]
    else:
        axes.append(("month", "Error by month", "month", MONTHS))  # type: ignore[arg-type]
    profiles = []
    for key, title, axis, labels in axes:
        slots = np.flatnonzero(test_pass.slot_counts[key])
        if len(slots) < 2:
            continue
        mse, mae = (
            {name: test_pass.by_slot(name, power, key)[slots].tolist() for name in test_pass.names if name != START}
            for power in (2, 1)
        )
        profiles.append(
            Profile(key=key, title=title, axis=axis, labels=[labels[i] for i in slots], mse=mse, mae=mae, note=note)
        )
    return profiles


def contribution(model: str, test_pass: TestPass, note: str) -> Profile:
    """Errors with and without the network, by step."""
    counts = test_pass.cell_counts.sum(axis=1)
    mse, mae = (
        {name: (test_pass.by_cell[name][power].sum(axis=1) / counts).tolist() for name in (model, START)}
        for power in (2, 1)
    )
    full, start = (float(np.mean(mse[name])) for name in (model, START))
    change = 1.0 - full / start if start > 0 else 0.0
    verb = "reduces" if change >= 0 else "increases"
    return Profile(
        key="contribution",
        title="Contribution of the network",
        axis="steps ahead",
        labels=range(1, len(mse[model]) + 1),
        mse=mse,
        mae=mae,
        note=f"The network {verb} the MSE by {100 * abs(change):.1f} %: {full:.4g} instead of {start:.4g}. {note}",
    )


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
    return CombinationWeights.from_plain(shares).in_words.removeprefix("100% ")


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
        words: the command, with keys before paths.
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
        typed = [*(word.partition("=")[2] for word in files), *(word for word in typed if word not in files)]
    return command_line([*([script, command] if script else ["python", "-m", f"informer.{name}"]), *typed])


MOST_NAMED = 5
"""Series named in a sentence."""

IDLE = (
    "the network adds nothing to the forecast that it starts from, because no training epoch reduced the validation "
    "loss; its attention maps are left out"
)
"""A remark on a run whose best state is that before the first step."""

MAP_CELLS = 48
"""Maximum number of cells per side of an attention map."""
MAX_MAPS = 48
"""Maximum number of attention maps."""


def run_content(
    path: Path,
    *,
    device: str = "auto",
    batch_size: int = 256,
    dataset: EvalDataset | None = None,
    data_dir: str | None = None,
) -> Content:
    """Content of a page on a run.

    Args:
        path: a run directory, a checkpoint file, or the folder written by `informer.eval`.
        device: see `pick_device`.
        batch_size: windows per batch.
        dataset, data_dir: location of the data, if it was moved since training.

    Raises:
        InputError: no readable checkpoint.
    """
    folder = path if path.is_dir() else path.parent
    source = path if not path.is_dir() or not _is_evaluation(path) else path.parent
    model = TrainedModel.load(source, device=device)
    content = described(folder, source, model)
    with ExitStack() as reading:
        data_context = trained_data(model.checkpoint, model.device, scratch=folder, dataset=dataset, data_dir=data_dir)
        data: Data | None = None
        try:
            with _read_notes() as notes:
                data = reading.enter_context(data_context)
        except InputError as error:
            content.remarks.append(
                f"The training data could not be read, so this page shows only what the run saved: {error}"
            )
        saved = _json(folder / METRICS_FILE)
        if saved is None and data is not None:
            saved = score(model.model, data, batch_size=batch_size, calibration=model.scored.calibration).to_dict()
        if saved is not None:
            add_scores(content, saved)
        if data is not None:
            content.problems = [*listed_lines(notes), *data_problems(data)]
            _add_windows(content, model, data, batch_size)
            probe = data.test.batch(torch.tensor([0]))
            if _has_start(model.model, probe) and not _adds_to_a_start(model.model, probe):
                content.remarks.append(IDLE)
            else:
                _add_attention(content, model, data)
    return content


def _is_evaluation(folder: Path) -> bool:
    """Whether a folder has no model but its parent has."""
    return not (folder / checkpoints.BEST).exists() and (folder.parent / checkpoints.BEST).exists()


def _json(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InputError(f"{path}: expected JSON as the training command writes it, found: {error}") from error


@contextmanager
def _read_notes() -> Iterator[list[str]]:
    """Collect log messages while reading the data: repairs, ignored columns, rows changed since training."""
    notes: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notes.append(record.getMessage())

    handler = Keep(level=logging.INFO)
    loggers = [logging.getLogger(name) for name in ("informer.data", "informer.inference.rescore")]
    for each in loggers:
        each.addHandler(handler)
    try:
        yield notes
    finally:
        for each in loggers:
            each.removeHandler(handler)


def _add_windows(content: Content, model: TrainedModel, data: Data, batch_size: int) -> None:
    """Add content that needs forecasts of the test windows: tracks, profiles and residuals."""
    model.model.eval()
    baselines: dict[str, ForecastFunction] = {each.name: each for each in bounded(fit_baselines(data), model.model)}
    network = model.model
    adds = _adds_to_a_start(network, data.test.batch(torch.tensor([0])))
    if adds:
        baselines[START] = partial(forecast_without_network, network)
    indices = chosen_windows(len(data.test), values=data.sizes.pred_len * len(data.targets))
    test_pass = TestPass(data, [content.model, *baselines])
    test_pass.run({content.model: lambda batch: model_forecast(model.model, batch)} | baselines, indices, batch_size)
    rivals = [name for name in baselines if name != START]
    mse = {name: test_pass.series_mse(name) for name in (content.model, *rivals)}
    tracks = gather_tracks(
        model, data, baselines=baselines, mse=mse, name=content.model, series_windows=test_pass.series_windows
    )
    content.times, content.tracks, content.series, content.shown = (
        tracks.times, tracks.tracks, tracks.table, tracks.reason
    )  # fmt: skip
    of = "all" if len(indices) == len(data.test) else f"{len(indices):,} evenly spaced of"
    note = f"Measured on {of} {len(data.test):,} test windows."
    content.shown = " ".join(filter(None, [content.shown, *_what_is_missing(data, len(indices))]))
    content.profiles += calendar_profiles(test_pass, data, note)
    content.residuals = ResidualPlot(
        edges=EDGES.tolist(),
        counts=test_pass.counts.tolist(),
        bias_by_step=(test_pass.residual_sum.sum(axis=1) / test_pass.cell_counts.sum(axis=1)).tolist(),
    )
    if adds:
        content.profiles.append(contribution(content.model, test_pass, note))


def _what_is_missing(data: Data, n_measured: int) -> Iterator[str]:
    """Series without test windows, and windows that the scores by series leave out."""
    owners = set(data.test.series(torch.arange(len(data.test))).tolist())
    absent = [series.name for s, series in enumerate(data.panel) if s not in owners]
    if absent:
        yield f"Too short for a test window: {listed(absent, MOST_NAMED)}."
    if n_measured < len(data.test) and len(data.panel) > 1:
        yield f"Scores by series on this page are of {n_measured:,} windows; metrics_by_series.csv has those of all."


@torch.inference_mode()
def _has_start(network: ForecastModel, probe: Batch) -> bool:
    """Whether the forecast without the network is not zero."""
    return network.network is not None and bool((forecast_without_network(network, probe) != 0).any())


@torch.inference_mode()
def _adds_to_a_start(network: ForecastModel, probe: Batch) -> bool:
    """Whether the network changes a linear start (an untrained head is zero)."""
    if not _has_start(network, probe):
        return False
    return bool((forecast_without_network(network, probe) != model_forecast(network, probe)).any())


def _add_attention(content: Content, model: TrainedModel, data: Data) -> None:
    """Add the attention maps of the last test window."""
    last = len(data.test) - 1
    row = int(data.test.starts[last])
    s = int(data.test.series(torch.tensor([last]))[0])
    series = data.panel[s]
    origin = series.timestamps[row - int(data.test.store.first_rows[s]) + data.sizes.seq_len - 1]
    where = f"{series.name}, " if len(data.panel) > 1 else ""
    content.attention_window = f"{where}history up to {origin} (the last test window)"
    n_maps = 0
    for each in attention_maps(model.model, data.test.batch(torch.tensor([last]))):
        heads = each.weights[0]
        n_maps += len(heads)
        if n_maps > MAX_MAPS:
            log.warning(f"report: attention maps from {each.layer_name} on are omitted; {MAX_MAPS} are shown")
            return
        cells = min(heads.shape[1], MAP_CELLS), min(heads.shape[2], MAP_CELLS)
        small = torch.nn.functional.adaptive_max_pool2d(heads[None].float(), cells)[0]
        content.attention.append(
            AttentionPicture(layer_name=each.layer_name, lengths=each.lengths, heads=small.tolist())
        )
