"""`python -m informer.predict checkpoint=runs/latest input=FILE.csv output=DIR`: continue a file.

Writes <name>.forecast.csv (one row a step: timestamps, then the targets in their own units) and, with plots=true,
<name>.forecast.png.
"""

from pathlib import Path

import pandas as pd
from rich.console import Console

from informer import cli
from informer.config import PredictConfig
from informer.data.source import Series
from informer.data.table import name_of
from informer.data.timestamps import EPOCHS
from informer.files import write_atomic
from informer.forecaster import Forecaster
from informer.inference.result import Forecast
from informer.plots import plot_forecast, save_figure


def main() -> None:
    """Console script `informer-predict`."""
    cli.run("predict", lambda settings: predict(settings, Console()))


def predict(settings: PredictConfig, console: Console) -> Path:
    """Forecast one file; returns the path of the CSV.

    Raises:
        InputError: no readable checkpoint, or a file that cannot be continued; nothing has been written then.
    """
    source = Path(settings.input or "")
    with cli.logging_to(console):
        forecaster = Forecaster.load(settings.checkpoint, device=settings.device.value)
        series = forecaster.trained.read_file(source, settings.dataset)
        known = [forecaster.trained.future_file(Path(settings.future), settings.dataset)] if settings.future else None
        forecast = forecaster.trained.forecast([series], horizon=settings.horizon, futures=known)[0]
    output = Path(settings.output)
    cli.make_folder(output)
    path = output / f"{name_of(source)}.forecast.csv"
    write_atomic(path, to_csv(forecast))
    cli.say(console, f"forecast: {path}")
    if settings.plots:
        picture = path.with_suffix(".png")
        ahead = pd.DataFrame(forecast.values, forecast.timestamps, list(forecast.targets))
        history = pd.DataFrame(series.values, series.timestamps, list(series.columns))
        save_figure(plot_forecast(history, ahead, title=name_of(source)), picture)
        cli.say(console, f"plot:     {picture}")
    return path


def to_csv(forecast: Forecast) -> str:
    """The forecast as CSV text, timestamps written as the input writes them."""
    frame, time_col = forecast.frame(), forecast.series.time_col
    return frame.assign(**{time_col: stamps(frame[time_col], forecast.series)}).to_csv(index=False)


def stamps(times: pd.Series, series: Series) -> pd.Series:
    """Timestamps as text in the way of the series they continue; ISO dates carry a time of day where its rows do."""
    written = series.time_format
    if written in EPOCHS:
        return times.dt.as_unit(EPOCHS[written]).astype("int64")
    if written in (None, "ISO8601"):
        dates_only = series.timestamps.tz is None and bool((series.timestamps == series.timestamps.normalize()).all())
        return times.dt.strftime("%Y-%m-%d") if dates_only else times.astype(str)
    return times.dt.strftime(written)


if __name__ == "__main__":
    main()
