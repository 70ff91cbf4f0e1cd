"""`InformerForecaster`: the forecasters of this package with the interface of sktime, which must be installed."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pandas as pd
from sktime.forecasting.base import BaseForecaster, ForecastingHorizon

from informer.base.errors import InputError
from informer.forecaster import Forecaster


class InformerForecaster(BaseForecaster):  # type: ignore[misc]  # sktime has no types
    """`Forecaster` as a forecaster of sktime. Columns of `X` are known ahead; the index has times or periods.

    Args:
        model: as of `Forecaster`.
        settings: those of `Forecaster`, for instance `{"trainer.max_epochs": 3}`.
    """

    _tags: ClassVar = {
        "y_inner_mtype": "pd.DataFrame",
        "X_inner_mtype": "pd.DataFrame",
        "capability:multivariate": True,
        "capability:exogenous": True,
        "capability:missing_values": True,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:update": True,
        "requires-fh-in-fit": False,
        "enforce_index_type": [pd.DatetimeIndex, pd.PeriodIndex],
    }

    _config: ClassVar = {"remember_data": False}  # rows are kept here, with the columns known ahead

    def __init__(self, model: str = "zero", settings: Mapping[str, Any] | None = None) -> None:
        self.model, self.settings = model, settings
        super().__init__()

    def _fit(self, y: pd.DataFrame, X: pd.DataFrame | None, fh: ForecastingHorizon | None) -> "InformerForecaster":
        self._targets = [str(name) for name in y.columns]
        columns = {} if X is None else {"future_covariates": [str(name) for name in X.columns]}
        if self.model != "zero":  # which forecasts all other columns
            columns["targets"] = self._targets
        self._history = _timed(y, X)
        self._forecaster = Forecaster(self.model, **{**columns, **(self.settings or {})}).fit(self._history)
        return self

    def _update(
        self, y: pd.DataFrame, X: pd.DataFrame | None = None, update_params: bool = True
    ) -> "InformerForecaster":
        """Later forecasts read the new rows; a trained model stays as it is."""
        self._history = pd.concat([self._history, _timed(y, X)])
        return self

    def _predict(self, fh: ForecastingHorizon, X: pd.DataFrame | None) -> pd.DataFrame:
        return self._ahead(fh, X)[self._targets]

    def _predict_quantiles(
        self, fh: ForecastingHorizon, X: pd.DataFrame | None, alpha: Sequence[float]
    ) -> pd.DataFrame:
        levels = {each: round(200 * abs(each - 0.5), 6) for each in alpha}
        if odd := [each for each, level in levels.items() if level % 1]:
            raise InputError(f"alpha={odd[0]}: expected an end of an interval of whole percent, such as 0.1 or 0.025")
        found = self._ahead(fh, X, sorted({int(level) for level in levels.values() if level}))
        ends = {each: f"_{'lo' if each < 0.5 else 'hi'}{level:.0f}" if level else "" for each, level in levels.items()}
        return pd.DataFrame(
            {(name, each): found[f"{name}{end}"] for name in self._targets for each, end in ends.items()}
        )

    def _ahead(self, fh: ForecastingHorizon, X: pd.DataFrame | None, levels: Sequence[int] = ()) -> pd.DataFrame:
        """Forecasts and bounds at the steps of `fh`."""
        steps = fh.to_relative(self.cutoff).to_numpy()
        future = None if X is None else _timed(X)
        found = self._forecaster.predict(self._history, horizon=int(steps.max()), intervals=levels, future=future)
        return found.iloc[steps - 1].set_index(fh.to_absolute_index(self.cutoff))


def _timed(*parts: pd.DataFrame | None) -> pd.DataFrame:
    """Columns next to each other, named by text, with the start of a period as its time."""
    table = pd.concat([part for part in parts if part is not None], axis=1).rename(columns=str)
    return table.to_timestamp() if isinstance(table.index, pd.PeriodIndex) else table
