"""Findings of monitoring as JSON and as a page."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from informer.errors import signed_percent
from informer.reporting.content import Card, Content, Profile, TextTable, Tone
from informer.watching.findings import Alarm, Findings, Verdict

TONES = {
    Verdict.ok: Tone.good,
    Verdict.recalibrate: Tone.level,
    Verdict.update: Tone.level,
    Verdict.retrain: Tone.bad,
}


def to_json(found: Findings, facts: dict[str, Any]) -> str:
    """All findings and `facts`; numbers that are not finite are null."""
    verdict, reason = found.decide()
    plain = {
        "verdict": verdict.name,
        "reason": reason,
        "exit_status": verdict.value,
        "skill": found.skill,
        "recent_skill_interval": list(found.recent_skill),
        "best_baseline": found.best_baseline,
        "origins": len(found.errors[found.model]),
        "mse": {name: float(errors.mean()) for name, errors in found.errors.items()},
        "interval": found.level,
        "coverage": float(found.coverage.mean()) if len(found.coverage) else None,
        "drift": [asdict(one) for one in found.alarms],
        "level": [asdict(one) for one in found.levels],
        "inputs": [asdict(one) for one in found.inputs],
        "periods": [asdict(one) for one in found.periods],
    }
    return json.dumps(_finite(plain | facts), indent=2) + "\n"


def _finite(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _finite(part) for key, part in node.items()}
    if isinstance(node, list):
        return [_finite(part) for part in node]
    return None if isinstance(node, float) and not math.isfinite(node) else node


def to_content(found: Findings, *, title: str, subtitle: str, command: str) -> Content:
    """Content of the page."""
    verdict, reason = found.decide()
    labels = [period.first for period in found.periods]
    mse = {name: [period.mse[name] for period in found.periods] for name in found.errors}
    covered = f"{found.coverage.mean():.1%}" if len(found.coverage) else "–"
    return Content(
        title=title,
        subtitle=subtitle,
        verdict=f"{verdict.name}: {reason}.",
        tone=TONES[verdict],
        model=found.model,
        cards=[
            Card(label="Skill", value=signed_percent(found.skill), hint=f"against {found.best_baseline}, all origins"),
            Card(label="Origins", value=f"{len(found.errors[found.model]):,}", hint="since the end of training"),
            Card(
                label="Coverage", value=covered, hint=f"of {found.level} % intervals" if found.level else "no intervals"
            ),
            Card(label="Drift", value=f"{_raised(found.alarms)}", hint="columns whose errors changed"),
            Card(label="Level", value=f"{_raised(found.levels)}", hint="columns whose level moved"),
        ],
        profiles=[
            Profile(
                key="over-time",
                title="Error over time",
                axis="first forecast value",
                labels=labels,
                mse=mse,
                mae={},
                note="Mean squared error of all origins of each period, scaled.",
            )
        ],
        tables=[_periods(found), _drift(found), _level(found), _inputs(found)],
        command=command,
    )


def _raised(alarms: Sequence[Alarm]) -> int:
    return sum(bool(one.after) for one in alarms)


def _periods(found: Findings) -> TextTable:
    rows = [
        (
            period.first,
            str(period.origins),
            *(f"{period.mse[name]:.4g}" for name in found.errors),
            "–" if math.isnan(period.skill) else signed_percent(period.skill),
            "–" if math.isnan(period.coverage) else f"{period.coverage:.1%}",
        )
        for period in found.periods
    ]
    return TextTable(
        title="Over time: scaled MSE, skill, coverage",
        head=("first forecast value", "origins", *found.errors, "skill", f"coverage of {found.level or 80} %"),
        rows=rows,
    )


def _drift(found: Findings) -> TextTable:
    rows = [(one.whose, f"{one.evidence:.2f}", f"{one.bound:.2f}", one.at or "no alarm") for one in found.alarms]
    return TextTable(
        title="Drift of one-step errors: logarithm of the evidence, alarm above the bound",
        head=("column", "evidence", "bound", "alarm at"),
        rows=rows,
    )


def _level(found: Findings) -> TextTable:
    rows = [
        (
            one.whose,
            f"{one.evidence:.2f}",
            f"{one.bound:.2f}",
            f"{one.change:+.2f}" if one.after else "–",
            one.at or "no alarm",
        )
        for one in found.levels
    ]
    return TextTable(
        title="Level of the targets: logarithm of the evidence, alarm above the bound, change in standard deviations",
        head=("column", "evidence", "bound", "change", "alarm at"),
        rows=rows,
    )


def _inputs(found: Findings) -> TextTable:
    rows = [(one.column, f"{one.stability_index:.3f}", f"{one.ks_distance:.3f}") for one in found.inputs]
    return TextTable(
        title="Inputs after training compared with before",
        head=("column", "population stability index", "Kolmogorov-Smirnov distance"),
        rows=rows,
    )
