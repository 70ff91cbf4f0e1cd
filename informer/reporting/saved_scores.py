"""Scores saved by a run or an evaluation (`metrics.json`), as parts of a report."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from informer.config.plain import nan_if_none
from informer.errors import counted, skill_text
from informer.inference.bootstrap import DRAWS, Interval, Winner
from informer.inference.coverage import nominal
from informer.metrics import METRICS, WQL
from informer.reporting.content import Card, Content, Coverage, Profile, ScoreRow, Tone, signed

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
