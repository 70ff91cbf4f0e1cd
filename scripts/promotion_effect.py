"""Check that a model recovers the known effects of promotions and holidays in simulated sales.

    python scripts/promotion_effect.py [--model tiny|linear] [--holiday -40] [--epochs 12] [--seed 0]

Daily sales of stores have a level, a weekly season and noise; they rise by a fixed amount with the kind of promotion of
the day, a text column known ahead, and change by --holiday on public holidays. In the horizon of held-out rows each day
in turn gets each kind of promotion: the change of the forecast for that day is the effect that the model has learned.
The effect of holidays is the mean difference of their forecasts from the simulated mean of a day without one.
"""

import argparse
from typing import Any

import holidays
import numpy as np
import pandas as pd

from informer import Forecaster

RISE = {"none": 0.0, "coupon": 6.0, "flyer": 12.0, "tv": 30.0}
SHARES = [0.6, 0.15, 0.15, 0.1]
COUNTRY = "DE"
DAYS, HISTORY, HORIZON = 730, 28, 7
NOISE = 4.0
ORIGINS = 8
"""Of forecasts in the last rows, a horizon apart."""
MEAN = "mean"
"""Column with the simulated mean of a day if it is no holiday, which models do not read."""


def sales(stores: int, seed: int, holiday: float) -> pd.DataFrame:
    """A long table: date, store, promo, sales, and MEAN."""
    rng, closed = np.random.default_rng(seed), holidays.country_holidays(COUNTRY, years=[2022, 2023])
    frames = []
    for store in range(stores):
        frame = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=DAYS), "store": f"s{store:02}"})
        frame["promo"] = rng.choice([*RISE], p=SHARES, size=DAYS)
        week = rng.uniform(5, 15) * np.sin(2 * np.pi * (frame["date"].dt.day_of_week + rng.uniform(0, 7)) / 7)
        frame[MEAN] = rng.uniform(80, 120) + week + frame["promo"].map(RISE)
        is_closed = np.array([day in closed for day in frame["date"].dt.date])
        frame["sales"] = frame[MEAN] + holiday * is_closed + NOISE * rng.normal(size=DAYS)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def trained(
    frame: pd.DataFrame, model: str, epochs: int, seed: int, *, holidays_read: bool, **roles: list[str]
) -> Forecaster:
    """A small trained network, or linear maps; `roles` are the settings of the promotion column."""
    of_network: dict[str, Any] = {
        "attn": "full", "optim": {"lr": 3e-3, "schedule": "cosine"}, "trainer": {"max_epochs": epochs},
    }  # fmt: skip
    return Forecaster.fit(
        frame.drop(columns=MEAN),
        model=model,
        targets=["sales"],
        dataset={"series_col": "store", "holidays": COUNTRY if holidays_read else None},
        seq_len=HISTORY,
        label_len=HORIZON,
        pred_len=HORIZON,
        device="cpu",
        seed=seed,
        **(of_network if model != "linear" else {}),
        **roles,
    )


def effects(model: Forecaster, frame: pd.DataFrame) -> dict[str, float]:
    """Mean change of a day's forecast compared with no promotion, by kind; and of holidays, from the mean of a day."""
    forecasts: dict[str, list[float]] = {kind: [] for kind in RISE}
    closed, changes = holidays.country_holidays(COUNTRY, years=[2023]), list[float]()
    days = np.sort(frame["date"].unique())
    for origin in range(ORIGINS):
        end = DAYS - (ORIGINS - origin) * HORIZON
        history, plan = (frame[frame["date"].isin(dates)] for dates in (days[:end], days[end : end + HORIZON]))
        history = history.drop(columns=MEAN)
        as_planned = model.predict(history, future=plan[["date", "store", "promo"]]).merge(plan, on=["date", "store"])
        is_closed = np.array([day in closed for day in as_planned["date"].dt.date])
        changes += (as_planned["sales_x"] - as_planned[MEAN])[is_closed].tolist()
        day = days[end + origin % HORIZON]
        for kind in RISE:
            changed = plan.assign(promo=plan["promo"].where(plan["date"] != day, kind))
            forecast = model.predict(history, future=changed[["date", "store", "promo"]])
            forecasts[kind].append(forecast.loc[forecast["date"] == day, "sales"].mean())
    means = {kind: float(np.mean(values)) for kind, values in forecasts.items()}
    rises = {kind: mean - means["none"] for kind, mean in means.items() if kind != "none"}
    return rises | {"holiday": float(np.mean(changes))}


def test_mse(model: Forecaster) -> float:
    """MSE of the model on the test part, in squared units of the sales."""
    return float(model.metrics["mse"].loc["original"].iloc[0])


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["tiny", "linear"], default="tiny")
    parser.add_argument("--holiday", type=float, default=0.0, help="effect of a public holiday")
    parser.add_argument("--stores", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    frame = sales(options.stores, options.seed, options.holiday)
    model_name, epochs, seed = options.model, options.epochs, options.seed
    with_holidays = options.holiday != 0
    model = trained(frame, model_name, epochs, seed, holidays_read=with_holidays, future_covariates=["promo"])
    print("| day | true effect | recovered | error |\n| --- | --- | --- | --- |")
    true = RISE | ({"holiday": options.holiday} if with_holidays else {})
    for kind, effect in effects(model, frame).items():
        if kind not in true:
            continue
        print(f"| {kind} | {true[kind]:g} | {effect:.2f} | {effect / true[kind] - 1:+.1%} |")
    print("\n| promotions | test MSE |\n| --- | --- |")
    print(f"| known ahead | {test_mse(model):.1f} |")
    for words, roles in (("of the past", {"past_covariates": ["promo"]}), ("not read", {})):
        other = trained(frame, model_name, epochs, seed, holidays_read=with_holidays, **roles)
        print(f"| {words} | {test_mse(other):.1f} |")
    print(f"| noise, the least possible | {NOISE**2:.1f} |")


if __name__ == "__main__":
    main()
