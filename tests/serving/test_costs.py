"""Costly requests: a limit before the work, and others are answered in between."""

from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from entry_points import ROOT, Trained

pytest.importorskip("fastapi", reason="needs fastapi and uvicorn (pip install fastapi uvicorn)")
pytest.importorskip("uvicorn", reason="needs fastapi and uvicorn (pip install fastapi uvicorn)")
from served import serving

HISTORY = pd.read_csv(ROOT / "data" / "sample.csv").head(24)


def panel(n_series: int) -> str:
    """CSV text of series with the same 24 rows."""
    return pd.concat([HISTORY.assign(shop=k) for k in range(n_series)]).to_csv(index=False)


def test_costly_requests_are_refused_or_take_turns_with_others(trained: Trained) -> None:
    """Red if a request beyond a limit is forecast, or the line does not say which setting limits what; or if requests
    wait for the end of one that was sent before. One may have come before it."""
    columns = HISTORY.shape[1] - 1
    most = 400 * 120 * columns
    given = f"max_values={most}", "max_series=5000", "timeout=600", "workers=1", "dataset.series_col=shop"
    with serving(f"checkpoint={trained.run_dir}", *given) as service, ThreadPoolExecutor() as threads:
        reply = service.csv(panel(481), "?horizon=1000")
        assert (reply.status, reply.error.count("\n")) == (422, 0)
        assert reply.error == (
            f"body: expected at most {most:,} values to forecast (max_values), found {481 * 1000 * columns:,}: 481 "
            f"series x 1,000 rows x {columns} columns; send fewer series, or shorten the horizon"
        )
        assert service.ask("GET", "/describe").json["limits"]["max_values"] == most
        costly = threads.submit(service.csv, panel(400), "?horizon=120")
        n_before = 0
        while not costly.done():
            assert service.csv(panel(2)).status == 200
            n_before += not costly.done()
        assert costly.result().status == 200
        assert n_before > 1
