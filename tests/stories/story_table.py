"""What the documents leave open, for `test_stories.py`: the files that their commands read, what makes long commands
short, and the lines that are not run.

A new recipe needs no line here if it reads files of these names.
"""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from entry_points import ROOT

ROWS, AHEAD = 600, 96
NOW = pd.Timestamp("2024-03-01")
"""Beginning of the first row that no file of the past has."""

SKIPPED = {
    r"^make |^\. \.venv|^pip install": "installs; see tests/test_packaging.py",
    r"^python scripts/": "a program of this repository, for minutes to days; see tests/test_scripts.py",
    r"^docker |^tensorboard ": "needs a program that is not part of the package",
    r"s3://|gs://|https://host": "needs a store; see tests/test_remote.py, which has one in memory",
    r"^cd |^status=|^\[ ": "words of a shell",
    r"^python -m pytest|attn=\S*mean": "needs the new file in the package; see tests/attention/test_contract.py",
}
"""Commands that are not run: a pattern of the line -> why."""

STATUSES = {r" watch ": {0, 10, 12}, r" score log=": {2}}
"""Exit statuses other than 0 that a page explains: verdicts of watch; on the first morning nothing can be scored."""

SLOW = (
    r"paper's experiments|Scored on a split|Trained on your file|Exchange the attention|Decoding and LSTMa|"
    r"Lags as further|Series embeddings|Which forecaster is best|A container"
)
"""Stories that take longer than three seconds, by their headings."""

PROCESSES = r"^README.md: (informer forecast|python -m informer.train dataset=ETTh1 attn=prob$)"
"""Commands, by page and line, that run as processes, as do services; the others run in the process of the tests."""

REPLACED = {
    r"\bNAME\b": "full",
    r"\bSEED\b": "0",
}
"""Placeholders: a pattern of a word of a command, or of Python -> what is run instead."""

SHORTER = {
    r"^train (?!.*seq_len)": "seq_len=48 label_len=24",
    r"^train (?!.*pred_len)": "pred_len=24",
    r"^train (?!.*model=linear)(?!.*model=zero(?!.*max_steps))": "trainer.max_steps=2",
    r"^train (?!.*model=(linear|zero))": "model.d_model=8",
    r"^train (?!.*model=(linear|zero|lstma))": "model.n_heads=2 model.d_ff=16",
    r"^train .*dataset=(?!csv)(?!ETTh1 attn=prob$)": "dataset.split.kind=rows dataset.split.train=600 "
    "dataset.split.val=200 dataset.split.test=200",
}
"""What is appended to long commands: a pattern of its words -> settings, of all patterns that match."""


def hourly(first: int, n: int) -> pd.DataFrame:
    """One series of rows `first` to `first + n - 1`, of which row 0 is `NOW`: the same rows at every call."""
    rng = np.random.default_rng(0)
    noise, promo, rain = rng.normal(size=(4, 4000)), rng.random(4000) < 0.1, rng.random(4000) < 0.2
    times = pd.date_range(NOW - pd.Timedelta(hours=3000), periods=4000, freq="h")
    price = 5 + noise[0].round(1)
    season = 10 * np.sin(2 * np.pi * np.arange(4000) / 24)
    frame = pd.DataFrame({"date": times, "price": price, "promo": promo * 1, "weather": rain * 1})
    frame["demand"] = (40 + season + noise[1]).round(3)
    frame["sales"] = (40 + season - 3 * (price - 5) + 20 * promo - 5 * rain + noise[2]).round(3)
    return frame[3000 + first : 3000 + first + n]


def stores(first: int, n: int) -> pd.DataFrame:
    """Six stores in two regions, with a row for each day."""
    frames = []
    for store in range(6):
        days = hourly(first, n).drop(columns=["demand", "weather"])
        days["date"] = NOW + pd.to_timedelta(np.arange(first, first + n), "D")
        days["holiday"], days["region"] = (days["date"].dt.day == 25) * 1, ("north", "south")[store % 2]
        frames.append(days.assign(store=f"s{store + 1:02}", sales=days["sales"] * (1 + store)))
    return pd.concat(frames)


def m4(first: int, n: int) -> pd.DataFrame:
    """Five series in the form of M4 Hourly."""
    names = {"date": "ds", "sales": "y"}
    parts = [hourly(first + i, n).rename(columns=names)[["ds", "y"]].assign(unique_id=f"H{i}") for i in range(5)]
    return pd.concat([part.assign(ds=parts[0]["ds"].to_numpy()) for part in parts])[["unique_id", "ds", "y"]]


def published(rows: int, columns: str) -> pd.DataFrame:
    """In the form of a file of the paper: hourly, a name for each column."""
    rng, hours = np.random.default_rng(1), np.arange(rows)[:, None]
    values = 5 + 3 * np.sin(2 * np.pi * hours / 24 + np.arange(len(columns.split()))) + rng.normal(size=(rows, 1))
    values += rng.normal(size=values.shape)
    frame = pd.DataFrame(values.round(3), columns=columns.split())
    frame.insert(0, "date", pd.date_range("2016-07-01", periods=rows, freq="h"))
    return frame


def etth1() -> pd.DataFrame:
    """As long and as wide as ETTh1."""
    return published(17420, "HUFL HULL MUFL MULL LUFL LULL OT")


def wth() -> pd.DataFrame:
    """The first months of a file like WTH, with its way of writing dates."""
    frame = published(2000, "WetBulbCelsius DryBulbCelsius RelativeHumidity")
    return frame.assign(date=frame["date"].dt.strftime("%m/%d/%Y %H:%M"))


PUBLISHED = {"ETTh1.csv": etth1, "WTH.csv": wth}
"""Data sets by name, in `INFORMER_DATA_DIR`."""

TARGETS = ["sales", "demand"]

FILES: dict[str, Callable[[], pd.DataFrame]] = {
    "my.csv": lambda: hourly(-ROWS, ROWS),
    "data/sample.csv": lambda: pd.read_csv(ROOT / "data" / "sample.csv"),
    "newer.csv": lambda: hourly(-ROWS, ROWS + AHEAD),
    "sales.csv": lambda: hourly(-ROWS, ROWS),
    "today.csv": lambda: hourly(-ROWS, ROWS),
    "yesterday.csv": lambda: hourly(-ROWS, ROWS - 12),
    "ahead.csv": lambda: hourly(-24, 24 + AHEAD).drop(columns=TARGETS),
    "other.csv": lambda: hourly(-24, 24 + AHEAD).drop(columns=TARGETS).assign(promo=1),
    "history.csv": lambda: hourly(-ROWS, ROWS)[["date", "sales"]],
    "actuals.csv": lambda: hourly(0, 48)[["date", "sales"]],
    "forecasts.csv": lambda: hourly(0, 48)[["date", "sales"]].assign(sales=40.0, **{"Lo 80": 30.0, "Hi 80": 50.0}),
    "FOLDER/a.csv": lambda: hourly(-ROWS, ROWS),
    "FOLDER/b.csv": lambda: hourly(-ROWS, ROWS),
    "loads.parquet": lambda: hourly(-ROWS, ROWS),
    "loads/part-0.parquet": lambda: hourly(-ROWS, ROWS),
    "stores.csv": lambda: stores(-200, 200),
    "next_weeks.csv": lambda: stores(0, AHEAD).drop(columns="sales"),
    "m4_hourly_train.csv.gz": lambda: m4(-ROWS, ROWS),
    "ETTh1.csv": etth1,
    "solar_AL.txt.gz": lambda: hourly(-ROWS, ROWS)[["demand", "sales"]],
}
"""Tables that commands read, by the names they have in the documents."""

_SALES = "train sales.csv targets=[sales] future_covariates=[price,promo,weather] model=linear seq_len=48 pred_len=24"
_MY = "train my.csv target=sales model=linear seq_len=48 pred_len=24"
RUNS = {
    "runs/latest": f"{_MY} run_dir=runs/one",
    "run": f"{_MY} run_dir=run",
    "RUN": f"{_SALES} run_dir=RUN",
    "shops": f"{_SALES} run_dir=shops",
}
"""Runs that commands read, and how they are trained."""

NAMES = {
    "pd": "import pandas as pd",
    "polars": "import polars",
    "pyarrow": "import pyarrow.dataset",
    "duckdb": "import duckdb",
    "frame": "import pandas as pd; frame = pd.read_csv('my.csv').astype({'date': str})",
    "future": "import pandas as pd; future = pd.read_csv('ahead.csv').astype({'date': str})",
    "forecaster": "from informer import Forecaster; "
    "forecaster = Forecaster('linear', target='sales', seq_len=48, pred_len=24).fit('loads.parquet')",
    "q_t": "import torch; q_t, k_t, v_t = torch.randn(3, 1, 8, 64)",
    "dataclass": "from dataclasses import dataclass",
    "ModelConfig": "from informer.networks.models.config import ModelConfig, size",
    "Network": "from informer.networks.models.base import Network",
    "nn": "from torch import nn",
}
"""Names that Python of the documents reads without having made them, and the line that makes them."""


def write(name: str) -> None:
    """Write a table of `FILES` into the folder."""
    path, frame = Path(name), FILES[name]()
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, header="solar" not in name)


def entry_and_settings(words: list[str]) -> tuple[str, list[str]] | None:
    """The command of the package that a line runs, and its other words."""
    match words:
        case ["informer", entry, *settings] | ["python", "-m", "informer", entry, *settings]:
            return entry, settings
        case ["python", "-m", module, *settings] if module.startswith("informer."):
            return module.partition(".")[2], settings
        case _:
            return None


def reason_to_skip(words: list[str]) -> str | None:
    """Why a line is not run."""
    return next((reason for pattern, reason in SKIPPED.items() if re.search(pattern, " ".join(words))), None)


def statuses(line: str) -> set[int]:
    """The exit statuses that are right."""
    return next((statuses for pattern, statuses in STATUSES.items() if re.search(pattern, line)), {0})


def replaced(text: str) -> str:
    """A word or Python, with what is run instead."""
    for pattern, value in REPLACED.items():
        text = re.sub(pattern, value, text)
    return text


def appended(entry: str, settings: list[str]) -> list[str]:
    """The settings that make a command short."""
    line = " ".join([entry, *settings])
    return [word for pattern, more in SHORTER.items() if re.search(pattern, line) for word in more.split()]
