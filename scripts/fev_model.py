"""The forecast without training as a model of fev (Shchur et al. 2025, https://arxiv.org/abs/2509.26468).

    python scripts/fev_model.py runs/fev_bench.csv [--url YAML]

evaluates it on a benchmark of fev (`pip install fev`; the default is fev-bench, whose data it downloads) and writes the
table that its leaderboard takes. `InformerModel` takes any `fev.Task`. Columns known ahead are read; past and static
columns are not. No task's data have trained the network.
"""

import argparse
from pathlib import Path

import datasets
import fev
import pandas as pd

from informer import Forecaster

FEV_BENCH = "https://raw.githubusercontent.com/autogluon/fev/main/benchmarks/fev_bench/tasks.yaml"


class InformerModel(fev.ForecastingModel):  # type: ignore[misc]
    """Forecasts each window of a task by itself, all of its series at once."""

    model_name = "informer"

    def __init__(self) -> None:
        super().__init__()
        self.forecaster = Forecaster()

    def _fit_predict(self, task: fev.Task) -> list[datasets.DatasetDict]:
        levels = {p: _suffix(p) for p in task.quantile_levels}
        with self._record_inference_time():
            return [self._window(window, task, levels) for window in task.iter_windows()]

    def _window(self, window: fev.EvaluationWindow, task: fev.Task, levels: dict[float, str]) -> datasets.DatasetDict:
        past, future, _ = fev.convert_input_data(window, adapter="pandas")
        keys = [task.id_column, task.timestamp_column]
        intervals = sorted({int(name[3:]) for name in levels.values() if name})
        forecasts = {}
        for target in task.target_columns:
            forecast = self.forecaster.predict(
                past[[*keys, target, *task.known_dynamic_columns]],
                horizon=task.horizon,
                intervals=intervals,
                future=future if task.known_dynamic_columns else None,
                dataset={"series_col": task.id_column, "time_col": task.timestamp_column},
            )
            paths = dict(iter(forecast.groupby(task.id_column, sort=False)))
            rows = [_prediction(paths[name], target, levels) for name in past[task.id_column].unique()]
            forecasts[target] = datasets.Dataset.from_list(rows)
        return datasets.DatasetDict(forecasts)


def _suffix(level: float) -> str:
    """The end of an interval at this level, as columns of forecasts are named; "" of the median."""
    return "" if level == 0.5 else f"_{'lo' if level < 0.5 else 'hi'}{round(200 * abs(level - 0.5))}"


def _prediction(path: pd.DataFrame, target: str, levels: dict[float, str]) -> dict[str, list[float]]:
    columns = {"predictions": target} | {str(level): f"{target}{suffix}" for level, suffix in levels.items()}
    return {name: path[column].tolist() for name, column in columns.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--url", default=FEV_BENCH, help="tasks, a YAML file of fev")
    arguments = parser.parse_args()
    model, summaries = InformerModel(), []
    for each in fev.Benchmark.from_yaml(arguments.url).tasks:
        windows = model.fit_predict(each)
        seconds = model.inference_time
        summaries.append(each.evaluation_summary(windows, model.model_name, inference_time_s=seconds))
        pd.DataFrame(summaries).to_csv(arguments.output, index=False)
