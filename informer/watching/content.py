"""Findings of monitoring as JSON and as a page."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from informer.config.plain import without_nan
from informer.errors import signed_percent
from informer.reporting.content import Card, Content, Profile, TextTable, Tone
from informer.watching.findings import Alarm, Findings, Verdict

TONES = {
    Verdict.ok: Tone.good,
    Verdict.recalibrate: Tone.level,
    Verdict.update: Tone.level,
    Verdict.retrain: Tone.bad,
}


def to_json(findings: Findings, facts: dict[str, Any]) -> str:
    """All findings and `facts`; numbers that are not finite are null."""
    verdict, reason = findings.decide()
    plain = {
        "verdict": verdict.name,
        "reason": reason,
        "exit_status": verdict.value,
        "skill": findings.skill,
        "recent_skill_interval": list(findings.recent_skill),
        "best_baseline": findings.best_baseline,
        "origins": len(findings.errors[findings.model]),
        "mse": {name: float(errors.mean()) for name, errors in findings.errors.items()},
        "interval": findings.level,
        "coverage": float(findings.coverage.mean()) if len(findings.coverage) else None,
        "drift": [asdict(alarm) for alarm in findings.alarms],
        "level": [asdict(alarm) for alarm in findings.levels],
        "inputs": [asdict(moved) for moved in findings.inputs],
        "periods": [asdict(period) for period in findings.periods],
    }
    return json.dumps(without_nan(plain | facts), indent=2) + "\n"


def to_content(findings: Findings, *, title: str, subtitle: str, command: str) -> Content:
    """Content of the page."""
    verdict, reason = findings.decide()
    labels = [period.first for period in findings.periods]
    mse = {name: [period.mse[name] for period in findings.periods] for name in findings.errors}
    covered = f"{findings.coverage.mean():.1%}" if len(findings.coverage) else "–"
    return Content(
        title=title,
        subtitle=subtitle,
        verdict=f"{verdict.name}: {reason}.",
        tone=TONES[verdict],
        model=findings.model,
        cards=[
            Card(
                label="Skill",
                value=signed_percent(findings.skill),
                hint=f"against {findings.best_baseline}, all origins",
            ),
            Card(label="Origins", value=f"{len(findings.errors[findings.model]):,}", hint="since the end of training"),
            Card(
                label="Coverage",
                value=covered,
                hint=f"of {findings.level} % intervals" if findings.level else "no intervals",
            ),
            Card(label="Drift", value=f"{_raised(findings.alarms)}", hint="columns whose errors changed"),
            Card(label="Level", value=f"{_raised(findings.levels)}", hint="columns whose level moved"),
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
        tables=[_periods(findings), _drift(findings), _level(findings), _inputs(findings)],
        command=command,
    )


def _raised(alarms: Sequence[Alarm]) -> int:
    return sum(bool(alarm.after) for alarm in alarms)


def _periods(findings: Findings) -> TextTable:
    rows = [
        (
            period.first,
            str(period.origins),
            *(f"{period.mse[name]:.4g}" for name in findings.errors),
            "–" if math.isnan(period.skill) else signed_percent(period.skill),
            "–" if math.isnan(period.coverage) else f"{period.coverage:.1%}",
        )
        for period in findings.periods
    ]
    return TextTable(
        title="Over time: scaled MSE, skill, coverage",
        head=("first forecast value", "origins", *findings.errors, "skill", f"coverage of {findings.level or 80} %"),
        rows=rows,
    )


def _drift(findings: Findings) -> TextTable:
    rows = [
        (alarm.whose, f"{alarm.evidence:.2f}", f"{alarm.bound:.2f}", alarm.at or "no alarm")
        for alarm in findings.alarms
    ]
    return TextTable(
        title="Drift of one-step errors: logarithm of the evidence, alarm above the bound",
        head=("column", "evidence", "bound", "alarm at"),
        rows=rows,
    )


def _level(findings: Findings) -> TextTable:
    rows = [
        (
            alarm.whose,
            f"{alarm.evidence:.2f}",
            f"{alarm.bound:.2f}",
            f"{alarm.change:+.2f}" if alarm.after else "–",
            alarm.at or "no alarm",
        )
        for alarm in findings.levels
    ]
    return TextTable(
        title="Level of the targets: logarithm of the evidence, alarm above the bound, change in standard deviations",
        head=("column", "evidence", "bound", "change", "alarm at"),
        rows=rows,
    )


def _inputs(findings: Findings) -> TextTable:
    rows = [(moved.column, f"{moved.stability_index:.3f}") for moved in findings.inputs]
    return TextTable(
        title="Inputs after training compared with before",
        head=("column", "population stability index"),
        rows=rows,
    )
