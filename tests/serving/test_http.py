"""The service over HTTP: answers equal the Python API's, errors are one line, limits hold, it ends cleanly."""

import json
import re
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, SMALL, Trained, call, done

from informer import Forecaster

pytest.importorskip("fastapi", reason="needs pip install fastapi uvicorn prometheus-client")
pytest.importorskip("uvicorn", reason="needs pip install fastapi uvicorn prometheus-client")
pytest.importorskip("prometheus_client", reason="needs pip install fastapi uvicorn prometheus-client")
from served import CSV, JSON, Reply, Served, serving

CLIENTS = 64
SAMPLE = pd.read_csv(ROOT / "data" / "sample.csv")


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on three series of 320 rows with a column known ahead; its data with ten more rows are next to it."""
    folder = tmp_path_factory.mktemp("shops")
    random, hours = np.random.default_rng(0), pd.date_range("2024-01-01", periods=330, freq="h")
    frames = [
        pd.DataFrame({"shop": shop, "when": hours, "price": random.normal(5, 1, 330), "sold": random.normal(9, 2, 330)})
        for shop in ("a", "b", "c")
    ]
    frame = pd.concat(frames, ignore_index=True)
    frame.to_csv(folder / "all.csv", index=False)
    frame[frame["when"] < hours[320]].to_csv(folder / "past.csv", index=False)
    given = ["dataset=csv", f"dataset.path={folder / 'past.csv'}", "dataset.series_col=shop", "targets=[sold]"]
    done("train", *given, "future_covariates=[price]", *SMALL, "trainer.max_steps=2", f"run_dir={folder / 'run'}")
    return folder


@pytest.fixture(scope="module")
def served(trained: Trained, shops: Path) -> Iterator[Served]:
    limits = "max_mb=0.2", "max_horizon=50", "max_cells=50000", "max_series=3"
    models = f"models=[default={trained.run_dir},shops={shops / 'run'}]"
    with serving(models, *limits, "hosts=[own.example]") as service:
        yield service


@pytest.fixture(scope="module")
def forecaster(trained: Trained) -> Forecaster:
    return Forecaster.load(trained.run_dir)


def history(number: int, rows: int = 30) -> pd.DataFrame:
    return SAMPLE.iloc[10 * number : 10 * number + rows]


def text(frame: pd.DataFrame) -> str:
    return frame.to_csv(index=False)


def begun(service: Served, length: int, *more: bytes) -> socket.socket:
    """A connection on which a request with a body of this length has begun."""
    client = socket.create_connection((service.host, service.port), timeout=120)
    lines = [b"POST /forecast HTTP/1.1", b"Host: localhost", b"Content-Type: text/csv", b"Content-Length: %d" % length]
    client.sendall(b"\r\n".join([*lines, *more, b"", b""]))
    return client


def assert_equal(reply: Reply, expected: pd.DataFrame) -> None:
    """float32 sums may be rounded differently for another number of rows."""
    assert reply.status == 200, reply.body
    forecast = pd.DataFrame(reply.json["forecast"])
    assert list(forecast.columns) == list(map(str, expected.columns))
    assert list(pd.to_datetime(forecast["date"])) == list(pd.to_datetime(expected["date"]))
    numbers = expected.select_dtypes("number")
    scale = SAMPLE.select_dtypes("number").abs().to_numpy().max()
    np.testing.assert_allclose(forecast[numbers.columns].to_numpy(float), numbers, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.slow
def test_64_clients_at_once_get_what_they_would_get_alone(served: Served, forecaster: Forecaster) -> None:
    """Red if answers are mixed up, or depend on other requests: then bytes differ from those of a second round."""
    together, queries = threading.Barrier(CLIENTS), ("?intervals=80,95", "?horizon=9", "")

    def client(number: int) -> Reply:
        together.wait()
        return served.csv(text(history(number)), queries[number % 3], accept=JSON)

    with ThreadPoolExecutor(CLIENTS) as threads:
        replies = list(threads.map(client, range(CLIENTS)))
    options = [{"intervals": (80, 95)}, {"horizon": 9}, {}]
    for number, reply in enumerate(replies):
        assert_equal(reply, forecaster.predict(history(number), **options[number % 3]))
    alone = [served.csv(text(history(number)), queries[number % 3], accept=JSON) for number in range(0, CLIENTS, 7)]
    assert [reply.body for reply in alone] == [replies[number].body for number in range(0, CLIENTS, 7)]


def test_csv_is_answered_as_predict_writes_it(served: Served, trained: Trained, folder: Path) -> None:
    """Red if the service reads or writes CSV in another way than the command; digits of float32 may differ."""
    written = text(history(3)).replace(",", ";").replace(".", ",")
    Path("mine.csv").write_text(written)
    done("predict", f"checkpoint={trained.run_dir}", "input=mine.csv", "intervals=[80]")
    reply = served.csv(written, "?intervals=80")
    assert reply.headers["content-type"].startswith(CSV)
    (header, *rows), (expected_header, *expected) = (
        [line.split(";") for line in content.decode().splitlines()]
        for content in (reply.body, Path("forecasts/mine.forecast.csv").read_bytes())
    )
    assert header == expected_header
    assert [row[0] for row in rows] == [row[0] for row in expected]
    numbers, wanted = (
        [[float(cell.replace(",", ".")) for cell in row[1:]] for row in each] for each in (rows, expected)
    )
    np.testing.assert_allclose(numbers, wanted, rtol=1e-4, atol=1e-3)
    assert max(len(cell) for row in rows for cell in row[1:]) <= 12, "all digits of a float64"


def test_json_columns_and_rows_are_the_same_table(served: Served, forecaster: Forecaster) -> None:
    columns = served.table(frame=history(2).to_dict("list"))
    rows = served.table(frame=history(2).to_dict("records"))
    assert columns.body == rows.body
    wide = served.table(frame={f"{i}": [1] for i in range(2000)})
    assert wide.error.startswith("frame: expected at most 1,004 columns")
    assert_equal(columns, forecaster.predict(history(2)))


def test_unknown_intervals_are_null(served: Served) -> None:
    """65 test windows, whose later horizons are those of others: 65 - 8 6 < 19 errors for steps 49 to 54."""
    forecast = served.table("?horizon=50&intervals=95", frame=history(1).to_dict("list")).json["forecast"]
    assert [end is None for end in forecast["demand_lo95"]] == [False] * 48 + [True] * 2
    assert forecast["rolled"] == [False] * 6 + [True] * 44


REFUSALS = json.loads(Path(__file__).with_name("refusals.json").read_text(encoding="utf-8"))
"""Requests, and the status and beginning of the error with which they are answered. A body is 30 rows of the sample if
there is no other number of `rows`, with a text to `replace`; or parts, each so many times, in an `encoding`."""


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["error"][:40])
def test_what_is_refused_is_one_line(case: dict[str, Any], served: Served) -> None:
    """Red if columns or cells are read before they are counted, counted in bytes that are none of them (0xfc of
    mac_arabic is |, 0x85 of latin-1 ends a line), or half a character reaches the answer."""
    rows = text(history(0, case.get("rows", 30))).replace(*case.get("replace", ["\0", ""]))
    content = "".join(part * times for part, times in case["body"]) if "body" in case else rows
    encoded, kind = content.encode(case.get("encoding", "utf-8")), case.get("type", CSV)
    reply = served.ask("POST", f"/forecast{case.get('query', '')}", encoded, content_type=kind)
    assert (reply.status, reply.error.count("\n")) == (case["status"], 0)
    assert reply.error.startswith(case["error"])


def test_other_host_headers_are_refused(served: Served) -> None:
    """Red if a page of another name can make a browser ask the service, or the service's own names are refused."""
    for path in ("/describe", "/openapi.json", "/none"):
        reply = served.ask("GET", path, host="evil.example")
        assert (reply.status, reply.error.count("\n")) == (421, 0)
        assert "Host: expected 127.0.0.1, [::1], localhost, own.example, found 'evil.example'" in reply.error
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:8000", "own.example"):
        assert served.ask("GET", "/health", host=host).status == 200
    assert served.ask("GET", "/health", host="127.0.0.1.evil.example").status == 421


def test_a_client_may_leave_within_a_body(served: Served) -> None:
    """Red if that is an error in the output of the service, which is checked at its end."""
    with begun(served, 99):
        pass
    assert served.ask("GET", "/health").status == 200


def test_other_paths_and_methods_are_one_line(served: Served) -> None:
    assert served.ask("GET", "/docs/../../etc/passwd").status == 404
    assert served.ask("GET", "/x").error == "GET /x: not found; GET / lists the routes"
    assert served.ask("GET", "/forecast").status == 405


def test_what_the_service_says_of_itself(served: Served, forecaster: Forecaster) -> None:
    assert served.ask("GET", "/health").json == {"status": "ok", "models": ["default", "shops", "zero"]}
    assert served.ask("GET", "/ready").json["status"] == "ready"
    service = served.ask("GET", "/describe").json
    described, _, zero = service["models"]
    assert described["targets"] == list(forecaster.trained.columns.targets)
    assert (described["seq_len"], described["pred_len"], described["step"]) == (24, 6, "h")
    assert (zero["name"], zero["targets"]) == ("zero", [])
    assert service["limits"]["max_mb"] == 0.2
    paths = served.ask("GET", "/openapi.json").json["paths"]
    assert set(paths) == {"/health", "/ready", "/metrics", "/describe", "/forecast"}
    names = [each["name"] for each in paths["/forecast"]["post"]["parameters"]]
    assert names == ["model", "horizon", "intervals", "name"]


def test_the_pretrained_network_answers_without_a_model_file(served: Served) -> None:
    """Red if it is not the forecast of Python, for one series and for several whose names are numbers."""
    one, zero = history(3, 200), Forecaster()
    assert_equal(served.csv(text(one), "?model=zero&horizon=9", accept=JSON), zero.predict(one, horizon=9))
    two = pd.concat([one.assign(shop="001"), one.assign(shop="002")])
    reply = served.csv(text(two), "?model=zero&horizon=9", accept=JSON)
    assert_equal(reply, zero.predict(two, horizon=9))
    assert reply.json["forecast"]["shop"] == ["001"] * 9 + ["002"] * 9


def test_the_pretrained_network_reads_columns_known_ahead(served: Served) -> None:
    """Against Python; red if the table under `future` is not read, or the horizon is not as far as it reaches, or is
    not limited then."""
    rows = history(3, 320)[["date", "price", "demand"]]
    past, ahead = rows[:200], rows[200:].drop(columns="demand")
    reply = served.table("?model=zero", frame=past.to_dict("list"), future=ahead[:9].to_dict("list"))
    assert_equal(reply, Forecaster().predict(past, future=ahead[:9]))
    reply = served.table("?model=zero", frame=past.to_dict("list"), future=ahead.to_dict("list"))
    assert (reply.status, reply.error) == (422, "horizon: expected at most 96, found 120")


def test_answers_are_counted_and_logged_with_the_id_of_the_request(served: Served) -> None:
    """Red if a counter does not count, or an id that would break a line of a log or a header is taken over."""
    reply = served.csv(text(history(0)), x_request_id="own-id.7")
    assert reply.headers["x-request-id"] == "own-id.7"
    given = served.ask("GET", "/none", x_request_id='"evil id').headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{32}", given)
    metrics = served.ask("GET", "/metrics").body.decode()
    counted = {key: float(value) for key, value in re.findall(r"^(\S+) (\S+)$", metrics, re.MULTILINE)}
    assert counted['informer_requests_total{path="/forecast",status="200"}'] >= 1
    assert counted['informer_forecasts_total{model="default"}'] >= 6 * 4
    assert counted["informer_requests_in_progress"] == 0
    assert counted['informer_request_seconds_count{path="/forecast"}'] >= 1


@pytest.mark.slow
def test_a_newer_model_is_read_without_a_restart(trained: Trained, folder: Path) -> None:
    """Red if a run that was trained again is not read, or a file that cannot be read ends the service."""
    shutil.copytree(trained.run_dir, "run")
    with serving("models=[mine=run]") as service:
        before = [service.ask("GET", "/describe").json["models"][0]["changed"] for _ in range(2)]
        first = service.csv(text(history(0)))
        whole = Path("run/best.safetensors").read_bytes()
        Path("run/best.safetensors").write_bytes(whole[:1000])
        assert service.csv(text(history(0))).body == first.body
        done("train", "dataset=sample", *SMALL, "trainer.max_steps=1", "seed=5", "run_dir=newer")
        Path("newer/best.safetensors").replace("run/best.safetensors")
        assert service.csv(text(history(0))).body != first.body
        assert service.ask("GET", "/describe").json["models"][0]["changed"] not in before


def test_the_page_loads_nothing_from_elsewhere(served: Served) -> None:
    """Red if the page names another place than the service, or runs what its policy does not allow."""
    for path in ("/", "/docs"):
        page = served.ask("GET", path)
        assert page.headers["content-type"].startswith("text/html")
        content = page.body.decode()
        assert set(re.findall(r"https?://[^\"' <]+", content)) <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r"<(script|link|img|iframe)[^>]* (src|href)=\"(?!data:)", content)
        assert "default-src 'none'" in page.headers["content-security-policy"]


def test_several_series_with_covariates_known_ahead(served: Served, shops: Path) -> None:
    """Red if a series gets another's future, or its name is lost."""
    table = pd.read_csv(shops / "all.csv", parse_dates=["when"])
    is_past = table["when"] < table["when"][320]
    past, ahead = table[is_past], table[~is_past].drop(columns="sold")
    both = pd.concat([past, ahead])
    whole, rows, later = (json.loads(each.to_json(orient="records", date_format="iso")) for each in (both, past, ahead))
    reply = served.table("?model=shops&intervals=80", frame=rows, future=later)
    forecast = pd.DataFrame(reply.json["forecast"])
    expected = Forecaster.load(shops / "run", device="cpu").predict(past, future=ahead, intervals=80)
    assert list(forecast["shop"]) == list(expected["shop"])
    np.testing.assert_allclose(forecast["sold"], expected["sold"], rtol=1e-5)
    np.testing.assert_allclose(forecast["sold_lo80"], expected["sold_lo80"], rtol=1e-5)
    for each in (served.csv(text(both), "?model=shops", accept=JSON), served.table("?model=shops", frame=whole)):
        np.testing.assert_allclose(each.json["forecast"]["sold"], expected["sold"], rtol=1e-5)
    assert "expected future covariates for 6 times" in served.csv(text(past), "?model=shops").error
    more = [*rows, *(row | {"shop": "d"} for row in rows[:320])]
    for name in ("shops", "zero"):
        reply = served.table(f"?model={name}", frame=more)
        assert "frame: expected at most 3 series, found 4; send fewer" in reply.error


@pytest.mark.slow
def test_a_body_that_never_ends_is_given_up(trained: Trained) -> None:
    """Red if a client that sends nothing more keeps its place: the service would wait for it forever."""
    with serving(f"checkpoint={trained.run_dir}", "timeout=0.2", "max_requests=1") as service:
        with begun(service, 99) as client:
            answer = b""
            while not answer.endswith(b"}"):
                answer += client.recv(4096)
        assert b"408" in answer.splitlines()[0]
        assert b"timeout: the body did not arrive within 0.2 s" in answer
        assert service.ask("GET", "/health").status == 200


@pytest.mark.slow
def test_too_many_and_too_costly_requests_are_refused_and_others_take_turns(trained: Trained) -> None:
    """Red if the third of two waits, a request beyond max_values is forecast, requests wait for the end of one that was
    sent before (one may have come before it), or SIGTERM cuts off what has begun."""

    def panel(n_series: int) -> str:
        return text(pd.concat([SAMPLE.head(24).assign(shop=k) for k in range(n_series)]))

    most, going_on = 400 * 120 * 4, b"Expect: 100-continue"
    given = f"max_values={most}", "max_series=5000", "timeout=600", "workers=1", "dataset.series_col=shop"
    with serving(f"checkpoint={trained.run_dir}", "max_requests=2", *given) as service:
        assert service.csv(panel(481), "?horizon=1000").error == (
            f"body: expected at most {most:,} values to forecast (max_values), found {481 * 1000 * 4:,}: 481 "
            f"series x 1,000 rows x 4 columns; send fewer series, or shorten the horizon"
        )
        with ThreadPoolExecutor() as threads:
            costly, n_before = threads.submit(service.csv, panel(400), "?horizon=120"), 0
            while not costly.done() and n_before < 2:
                assert service.csv(panel(2)).status == 200
                n_before += not costly.done()
            assert costly.result().status == 200
        assert n_before == 2
        with begun(service, 9, going_on) as client, begun(service, 9, going_on) as other:
            assert b"100 Continue" in client.recv(4096)  # it is admitted, and waited for
            assert b"100 Continue" in other.recv(4096)
            refused = service.csv(panel(1))
            client.sendall(b"date\n2020")
            assert b"422" in client.recv(4096)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert refused.error.startswith("busy: 2 requests in progress")
        assert service.csv(panel(1)).status == 200
        with begun(service, len(panel(1)), going_on) as client:
            assert b"100 Continue" in client.recv(4096)
            service.process.send_signal(signal.SIGTERM)
            client.sendall(panel(1).encode())
            assert b"".join(iter(lambda: client.recv(65536), b"")).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_an_address_in_use_is_one_line_and_a_service_that_is_stopped_at_once_ends(trained: Trained) -> None:
    """Red if a signal between the first line and the first request is lost."""
    with serving() as service:
        outcome = call("serve", f"checkpoint={trained.run_dir}", f"port={service.port}")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "cannot listen there (Address already in use); choose another" in outcome.err
