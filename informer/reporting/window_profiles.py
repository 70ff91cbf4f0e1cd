"""Errors over the test windows: by hour, weekday or month, and without the network."""

import numpy as np

from informer.data.pipeline import Data
from informer.data.read.frequency import Unit
from informer.reporting.content import START, Profile
from informer.reporting.test_pass import TestPass

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
