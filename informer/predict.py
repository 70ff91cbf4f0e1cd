"""`python -m informer.predict checkpoint=runs/latest input=FILE.csv output=DIR`: continue a file.

Writes <name>.forecast.csv (pred_len rows: future timestamps, then the targets in their own units) and, with plots=true,
<name>.forecast.png.
"""

from pathlib import Path

import pandas as pd
from rich.console import Console

from informer import cli
from informer.config import PredictConfig
from informer.data.source import Series
from informer.files import write_atomic
from informer.inference.forecast import Forecaster
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
        series = forecaster.read(source, settings.dataset)
        forecast = forecaster.continue_series([series])[0]
    output = Path(settings.output)
    cli.make_folder(output)
    name = source.name.removesuffix(source.suffix)
    path = output / f"{name}.forecast.csv"
    write_atomic(path, to_csv(forecast, series))
    console.print(f"forecast: {path}", highlight=False, soft_wrap=True)
    if settings.plots:
        picture = path.with_suffix(".png")
        ahead = forecast.set_index(series.time_col)
        history = pd.DataFrame(series.values, series.timestamps, list(series.columns))
        save_figure(plot_forecast(history, ahead, title=name), picture)
        console.print(f"plot:     {picture}", highlight=False, soft_wrap=True)
    return path


def to_csv(forecast: pd.DataFrame, series: Series) -> str:
    """The forecast as CSV text, timestamps written as the input writes them."""
    written = None if series.time_format in (None, "ISO8601") else series.time_format
    return forecast.to_csv(index=False, date_format=written)


if __name__ == "__main__":
    main()
