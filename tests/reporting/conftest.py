"""A run over several series with hostile names, and a browser without a window."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done

HOSTILE = "</script><img src=x onerror=document.title='broken'>"
"""A name that would run if it were taken for markup."""
COLUMN = 'sales <b>€</b> & "more"'

BROWSER, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def panel_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps on three series of two columns, with its data next to it; for reading only."""
    folder = tmp_path_factory.mktemp("panel")
    times = pd.date_range("2024-01-01", periods=320, freq="h").astype(str)
    rng = np.random.default_rng(0)
    wave = np.sin(np.arange(320) * 2 * np.pi / 24)
    parts = [
        pd.DataFrame(
            {"store": name, "when": times, "visits": level + wave + rng.normal(0, size, 320),
             COLUMN: level * (2 + wave) + rng.normal(0, size, 320)}
        )
        for name, level, size in (("north", 10, 0.1), (HOSTILE, 20, 0.5), ("south", 30, 1.0))
    ]  # fmt: skip
    pd.concat(parts).to_csv(folder / "data.csv", index=False)
    done(
        "train", "dataset=csv", f"dataset.path={folder / 'data.csv'}", "dataset.series_col=store", "model=tiny",
        "model.skip=ridge", "seq_len=48", "label_len=12", "pred_len=6", "trainer.max_steps=3",
        f"run_dir={folder / 'run'}",
    )  # fmt: skip
    return folder / "run"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Chromium by its own driver, with a fresh profile and its log kept."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium (pip install selenium)")
    if BROWSER is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver (apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}", "--window-size=1280,1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.chrome.service.Service(DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_script_timeout(60)
    yield driver
    driver.quit()
