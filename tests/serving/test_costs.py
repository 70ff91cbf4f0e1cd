"""Costly requests: a limit before the work, and others are answered in between."""

import http.client
from collections.abc import Iterator
from select import select

import pandas as pd
import pytest
from entry_points import ROOT, Trained

pytest.importorskip("fastapi", reason="needs fastapi and uvicorn (pip install fastapi uvicorn)")
pytest.importorskip("uvicorn", reason="needs fastapi and uvicorn (pip install fastapi uvicorn)")
from served import CSV, Served, serving

HISTORY = pd.read_csv(ROOT / "data" / "sample.csv").head(24)
MOST = 320 * 60 * (HISTORY.shape[1] - 1)
"""Values of 320 series over 60 rows."""


def panel(n_series: int) -> str:
    """CSV text of series with the same 24 rows."""
    return pd.concat([HISTORY.assign(shop=k) for k in range(n_series)]).to_csv(index=False)


@pytest.fixture(scope="module")
def served(trained: Trained) -> Iterator[Served]:
    limits = f"max_values={MOST}", "timeout=600"
    with serving(f"checkpoint={trained.run_dir}", "dataset.series_col=shop", *limits) as service:
        yield service


def test_a_request_that_costs_too_much_is_refused(served: Served) -> None:
    """Red if it is forecast, or the line does not say which setting limits what."""
    reply = served.csv(panel(321), "?horizon=60")
    assert (reply.status, reply.error.count("\n")) == (422, 0)
    columns = HISTORY.shape[1] - 1
    assert reply.error == (
        f"body: expected at most {MOST:,} values to forecast (max_values), found {321 * 60 * columns:,}: 321 series x "
        f"60 rows x {columns} columns; send fewer series, or shorten the horizon"
    )
    assert served.ask("GET", "/describe").json["limits"]["max_values"] == MOST


def test_a_costly_request_does_not_hold_up_others(served: Served) -> None:
    """Red if a request waits for the end of one that was sent before: of 21 parts, where it has two itself. Also red if
    an answer depends on those that are computed at the same time."""
    alone = served.csv(panel(2))
    costly = http.client.HTTPConnection(served.host, served.port, timeout=600)
    costly.request("POST", "/forecast?horizon=60", panel(320).encode(), {"Content-Type": CSV})
    assert [served.ask("GET", "/health").status for _ in range(5)] == [200] * 5  # meanwhile its body has arrived
    together = served.csv(panel(2))
    is_answered = bool(select([costly.sock], [], [], 0)[0])
    reply = costly.getresponse()
    rows = reply.read().splitlines()
    costly.close()
    assert not is_answered
    assert (reply.status, len(rows)) == (200, 1 + 320 * 60)
    assert together.body == alone.body
