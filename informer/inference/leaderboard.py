"""Forecasters compared on the rows of a table: forecasts from the same earlier rows, scored in one table.

The members forecast each series from its history alone, the peers of other packages too. Every other name is a model of
`informer train`, which is trained once on the rows before the first forecast. The last forecast ends with the series,
and each begins where the one before ends.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

from informer.base.errors import InputError, ShortError, counted, listed, nearest
from informer.base.progress import report
from informer.base.quantiles import MEDIAN
from informer.config.compose import options_of
from informer.data.columns import Roles
from informer.data.dataset import Provenance, Source, panel_sha256
from informer.data.seasonality import bridged
from informer.data.store import with_columns
from informer.inference.model import TrainedModel
from informer.inference.zero import MOST_WINDOWS, ZeroModel, mean_error
from informer.members.baselines import naive_quantiles_after
from informer.members.peers import PEERS, peer
from informer.members.theta import theta
from informer.members.zero import Histories, network_seasons
from informer.read.series import column_values
from informer.read.split import cut_rows, lookback, split_for
from informer.read.table import without
from informer.scoring.backtest import DECILES
from informer.scoring.bootstrap import Winner, skill_interval, skill_of, verdict
from informer.scoring.forecasts import Forecasts
from informer.scoring.metrics import inside_cells, scores_table
from informer.scoring.origins import LEAST_HISTORY, Origins, before, newest, thinned
from informer.scoring.scores import ORIGINAL, Scores
from informer.training.folder import RunFolder
from informer.training.run import train

MOST_TESTS, LEAST_SHARE = 10, 0.6
"""Largest number of forecasts of a series, and least share of its rows before the first of them, if one fits."""
LEVEL, ENDS = 80, (0.1, 0.9)
"""Intervals whose coverage is in the table, in percent, and their ends; the quantile loss is that of DECILES."""
OF_TABLE = ("dataset", "target", "targets", "future_covariates", "run_dir")
"""Settings that the table and the test decide."""
METRICS = ("mase", "wql", f"coverage{LEVEL}")
"""Scores in the table."""


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The result.

    Args:
        table: a row for each forecaster, the best first: `model`, `mase`, `wql`, `coverage80`, `seconds` of computing;
            and compared with the best: `skill`, `low`, `high` (its 95 % interval), and `verdict`, in words.
        headline: which is the best, or which cannot be told apart.
        notes: what was left out, and why.
    """

    table: pd.DataFrame
    headline: str
    notes: Sequence[str]

    def printed(self) -> Table:
        """The scores, for the terminal."""
        scores = self.table.set_index("model")[[*METRICS, "seconds"]].to_dict("index")
        rows = [([str(name)], {str(metric): each for metric, each in row.items()}) for name, row in scores.items()]
        return scores_table(["model"], rows, self.table["model"].iloc[0])


def leaderboard(
    subject: ZeroModel, models: Sequence[str], horizon: int, *, device: str, settings: Mapping[str, Any] | None = None
) -> Leaderboard:
    """Compare forecasters.

    Args:
        subject: the series, and the columns known ahead, which "zero" and trained models read.
        models: "zero", "theta", "naive", names of PEERS, or models of `informer train`.
        horizon: rows of each forecast.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        settings: of the models that are trained, by their keys.

    Raises:
        InputError: an unknown model or a missing package, a model that cannot be trained on so few rows, or no series
            that is long enough for one forecast.
    """
    if len({*models}) < max(len(models), 2):
        raise InputError(f"models: expected at least two different names, found {listed(models)}")
    known = [*dict.fromkeys(["zero", "theta", "naive", *PEERS, *options_of("model")])]
    for name in without(models, known):
        raise InputError(f"models: expected some of {listed(known)}, found {name!r}{nearest(str(name), known)}")
    peers = {name: peer(name) for name in models if name in PEERS}  # refused before anything is computed
    own, origins, notes = _tested(subject, horizon, device)
    scores = Scores(own.columns, [each.name for each in own.panel], units=(ORIGINAL,), metric="mae")
    values, n, season = [column_values(each, own.columns) for each in own.panel], len(own.columns), own.seasons[0]
    histories = [column for place, end in origins for column in values[place][:end].T]
    owners = np.concatenate([place * n + np.arange(n) for place, _ in origins])
    began, seconds = time.process_time(), dict[str, float]()
    zero, naive = _zero_and_naive(own, origins, horizon, with_zero="zero" in models)
    seconds["zero"] = time.process_time() - began
    for name in models:
        report(f"testing {name}")
        began = time.process_time()
        if name == "zero":
            paths = zero
        elif name == "theta":
            past = Histories.of(histories, own.seasons)
            parts = torch.from_numpy(past.values), torch.from_numpy(past.observed)
            found = theta(*parts, season, horizon).numpy()
            paths = replace(naive, mean=past.bounded(found[..., None])[..., 0])
        elif name == "naive":
            quantiles = naive_quantiles_after(histories, season, naive.mean, DECILES)
            paths = replace(naive, levels=quantiles)
        elif name in peers:
            mean, levels = peers[name]([*map(bridged, histories)], owners, season, horizon, DECILES)
            paths = replace(naive, mean=mean, levels=levels)
        else:
            trained = _trained(name, own, origins, horizon, {"device": device} | {**(settings or {})})
            paths = replace(naive, mean=trained.mean, levels=trained.levels)
        seconds[name] = seconds.get(name, 0.0) + time.process_time() - began
        if paths.levels:
            cells = inside_cells(replace(paths, levels={level: paths.levels[level] for level in ENDS}))
        else:  # a point forecast is all of its quantiles
            notes.append(f"{name} has no intervals here: its quantile loss takes its forecast at every level")
            paths, cells = replace(paths, levels=dict.fromkeys(DECILES, paths.mean)), {}
        scores.add(name, paths, {ORIGINAL: cells})
    return _compared(scores, seconds, notes)


def _tested(subject: ZeroModel, horizon: int, device: str) -> tuple[ZeroModel, Origins, list[str]]:
    """The series that are long enough, with all of their rows; at most MOST_WINDOWS origins; notes on other series."""
    rows = sorted(map(len, subject.panel))[len(subject.panel) // 2]
    n_tests = min(max(int((1 - LEAST_SHARE) * rows) // horizon, 1), MOST_TESTS)
    least = n_tests * horizon + max(LEAST_HISTORY, subject.seasons[0] + 1, horizon)
    long = [each for each in subject.panel if len(each) >= least]
    if not long:
        raise ShortError(f"horizon={horizon}: expected series of at least {least} rows to test on, found {rows}")
    chosen, notes = long[:: -(-len(long) * len(subject.columns) * n_tests // MOST_WINDOWS)], list[str]()
    if len(long) < len(subject.panel):
        notes.append(f"left out: {counted(len(subject.panel) - len(long), 'series')} of fewer than {least} rows")
    if len(chosen) < len(long):
        notes.append(f"tested: {len(chosen)} of {len(long)} series, evenly spaced")
    own = ZeroModel(chosen, subject.columns, device=device, known=subject.known, categories=subject.categories)
    lasts = [len(each) - horizon for each in chosen]
    origins = [(place, end) for place, last in enumerate(lasts) for end in newest(1, last, horizon, n_tests)]
    own.seasons = network_seasons(before(chosen, origins), own.columns)
    return own, origins, notes


def _zero_and_naive(
    model: ZeroModel, origins: Origins, horizon: int, *, with_zero: bool
) -> tuple[Forecasts, Forecasts]:
    """Forecasts of the pretrained network, if asked for, and of the seasonal naive without quantiles."""
    levels = [round(200 * level - 100) for level in DECILES if level > MEDIAN]
    kinds = None if with_zero else list[str]()
    found = model.backtest(origins, horizon=horizon, levels=levels, kinds=kinds, of_constants=True)
    own, *_ = found.values()
    *_, naive, _ = found.values()
    return replace(own, bands={}, levels=own.quantiles), naive


def _trained(name: str, subject: ZeroModel, origins: Origins, horizon: int, settings: Mapping[str, Any]) -> Forecasts:
    """Forecasts of a model that is trained on the rows before the first forecast."""
    from informer.config.hydra_compose import compose

    panel = before(subject.panel, origins)
    known = () if subject.known is None else subject.known.columns
    rows = min(map(len, panel))
    given = {key: value for key, value in settings.items() if key.partition(".")[0] not in OF_TABLE}
    lengths = {} if "seq_len" in given else {"seq_len": (seq_len := lookback(rows, horizon, subject.seasons[0]))}
    lengths |= {} if "label_len" in given or not lengths else {"label_len": seq_len // 2}
    defaults = {"trainer.tracker": [], "dataset": "csv", **lengths}
    config = compose({**defaults, **given, "model": name, "pred_len": horizon, "targets": [*subject.columns]})
    has_gaps = any(np.isnan(each.values).any() for each in panel)
    dataset = replace(config.dataset, split=split_for(rows, horizon), fill="mask" if has_gaps else None)
    columns = Roles(targets=subject.columns, future_covariates=known).choose(panel[0].columns, name=panel[0].name)
    labels = {each: list(subject.categories[each]) for each in columns.inputs if each in subject.categories}
    source = Source(
        panel=with_columns(panel, columns.inputs),
        columns=columns,
        labels=labels,
        provenance=Provenance(Path("frame"), panel_sha256(panel, labels)),
    )
    with TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        train(
            replace(config, dataset=dataset, future_covariates=[*known]),
            run,
            Console(quiet=True),
            read=lambda: source,
        )
        model = TrainedModel.load(run.path, device=config.device)
    return model.backtest(origins, panel=subject.panel)


def gain_of_training(model: TrainedModel, subject: ZeroModel) -> float:
    """By how much the pretrained network, trained further, has a lower mean absolute scaled error than the forecast
    without training: a share of its error; 0 if it is not lower.

    Both forecast the rows of the validation part from the same earlier ones, at most MOST_WINDOWS times.

    Args:
        model: the trained network.
        subject: its series, and the columns known ahead, which the other forecast reads.
    """
    if not model.checkpoint.progress.best_epoch:  # the weights are those before training
        return 0.0
    targets, sizes, split = model.columns.targets, model.sizes, model.checkpoint.settings.dataset.split
    panel = subject.panel[:: -(-len(subject.panel) * len(targets) // MOST_WINDOWS)]
    most, origins = MOST_WINDOWS // (len(panel) * len(targets)), list[tuple[int, int]]()
    for place, series in enumerate(panel):
        rows = cut_rows(series.timestamps, series.frequency, split).clip(len(series)).val
        ends = thinned(max(rows.start, sizes.first), rows.stop - sizes.pred_len, most)
        origins += [(place, end) for end in ends]
    if not origins:
        return 0.0
    rule = ZeroModel(panel, targets, device=str(model.device), known=subject.known, categories=subject.categories)
    found = rule.backtest(origins, horizon=sizes.pred_len)[rule.kind]
    errors = mean_error(replace(found, mean=model.backtest(origins, panel=panel).mean)), mean_error(found)
    return max(1 - errors[0] / errors[1], 0.0) if errors[1] else 0.0


def _compared(scores: Scores, seconds: Mapping[str, float], notes: Sequence[str]) -> Leaderboard:
    """The table, from the scores of all forecasters."""
    errors = {name: scores.by_window(name) for name in scores.names}
    valid = np.isfinite(np.stack([*errors.values()])).all(axis=0)
    if not valid.any():
        raise InputError("leaderboard: nothing can be compared, since the series never change")
    errors = {name: each[valid] for name, each in errors.items()}
    ordered = sorted(errors, key=lambda name: float(errors[name].mean()))
    best, rows, unclear = ordered[0], list[dict[str, Any]](), list[str]()
    for name in ordered:
        overall = {f"coverage{LEVEL}": np.nan} | scores.overall(name, ORIGINAL)
        skill, interval = skill_of(errors[name].mean(), errors[best].mean()), skill_interval(errors[name], errors[best])
        if name != best and Winner.of(skill, interval) is not Winner.baseline:
            unclear.append(name)
        rows.append(
            {"model": name, **{metric: overall[metric] for metric in METRICS}, "seconds": seconds[name]}
            | {"skill": float(skill), **interval._asdict()}
            | {"verdict": "" if name == best else verdict("MASE", best, skill, interval)}
        )
    tests = counted(int(valid.sum()), "test forecast")
    headline = f"{best} is better than all others in {tests}, by more than chance"
    if unclear:
        headline = f"{best} has the lowest MASE in {tests}, and cannot be told apart from {listed(unclear)}"
    return Leaderboard(pd.DataFrame(rows), headline, notes)
