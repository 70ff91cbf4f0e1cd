"""Addresses (`memory://`, `http://` of a server on this machine) for data and inputs; none from a checkpoint."""

import json
import shutil
import socket
import sys
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import web
from entry_points import ROOT, SMALL, Outcome, call, done, refused
from forgery import content_of, write_forged

from informer import Forecaster, InputError
from informer.data import read

fsspec = pytest.importorskip("fsspec")

BODY = (ROOT / "data" / "sample.csv").read_bytes()
RUN = ["dataset=csv", *SMALL, "trainer.max_steps=1"]
SECRET = "sig=5ecret"


class Server(ThreadingHTTPServer):
    """Serves the sample data at /own.csv, counts who asks, and knows no other file."""

    asked = 0


class Handler(web.Handler):
    """Answers with BODY; 403 at /closed.csv."""

    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked += self.command == "GET"
        path = self.path.partition("?")[0]
        body = BODY if path == "/own.csv" else b""
        status = {"/own.csv": 200, "/closed.csv": 403}.get(path, 404)
        self.answer(status, body if self.command == "GET" else b"", len(body))

    do_HEAD = do_GET


@pytest.fixture
def server() -> Iterator[Server]:
    with web.serving(Server(("127.0.0.1", 0), Handler)) as http:
        yield http


@pytest.fixture
def store() -> Iterator[Any]:
    """An empty store in memory."""
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]
    yield filesystem
    filesystem.store.clear()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a file of this machine."""
    place = tmp_path_factory.mktemp("run")
    (place / "own.csv").write_bytes(BODY)
    done("train", *RUN, f"dataset.path={place}/own.csv", f"run_dir={place}/run")
    return place / "run"


def predicted(run: Path, *arguments: str) -> Outcome:
    return call("predict", f"checkpoint={run}", "plots=false", *arguments)


def test_a_forecast_from_a_store(run: Path, store: Any, tmp_path: Path) -> None:
    """The bytes of the same forecast of a file on this machine; red if a message names the copy, or if a later command
    of the process reads the rows of an earlier one."""
    store.pipe_file("/in/own.csv", BODY)
    (tmp_path / "own.csv").write_bytes(BODY)
    outputs = [f"output={tmp_path}/{name}" for name in ("here", "there", "later")]
    assert predicted(run, f"input={tmp_path}/own.csv", outputs[0]).status == 0
    outcome = predicted(run, "input=memory://in/own.csv", outputs[1])
    assert outcome.status == 0, outcome.err
    texts = [(tmp_path / name / "own.forecast.csv").read_bytes() for name in ("here", "there")]
    assert texts[0] == texts[1]
    assert "informer-" not in outcome.out
    answer = json.loads(call("forecast", "memory://in/own.csv", "horizon=3", f"output={tmp_path}/of", "--json").out)
    assert answer["forecasts"][0]["input"] == "memory://in/own.csv"
    store.pipe_file("/in/own.csv", BODY[: BODY.rindex(b"\n", 0, -1) + 1])
    assert predicted(run, "input=memory://in/own.csv", outputs[2]).status == 0
    assert (tmp_path / "later" / "own.forecast.csv").read_bytes() != texts[0]


def test_series_of_files_of_a_store(store: Any, tmp_path: Path) -> None:
    """Red if `informer.data.read` does not copy addresses, alone or in a list, or reads a list of tables as paths."""
    store.pipe_file("/in/own.csv", BODY)
    (tmp_path / "other.csv").write_bytes(BODY)
    (own,), both = read("memory://in/own.csv"), read(["memory://in/own.csv", tmp_path / "other.csv"])
    assert [each.name for each in both] == ["own", "other"]
    for each in both:
        np.testing.assert_array_equal(each.values, own.values)
    for tables in ([], [pd.read_csv(tmp_path / "other.csv")]):
        with pytest.raises(InputError, match="source: expected paths of files in a list"):
            read(tables)


@pytest.mark.parametrize("wanted", ["memory://in", "memory://in/*.csv"])
def test_many_files_of_a_store(wanted: str, run: Path, store: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        store.pipe_file(f"/in/{name}.csv", BODY)
    store.pipe_file("/in/bad.csv", b"nothing\n")
    outcome = predicted(run, f"input={wanted}", f"output={tmp_path}/out")
    assert outcome.status == 1
    assert "failed: memory://in/bad.csv" in outcome.out
    names = ["a.forecast.csv", "b.forecast.csv", "summary.csv"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    table = pd.read_csv(tmp_path / "out" / "summary.csv")
    assert set(table["file"]) == {f"memory://in/{name}.csv" for name in ("a", "b", "bad")}


def test_training_from_the_web_saves_no_signature(server: Server, store: Any, tmp_path: Path) -> None:
    """One request; the configuration has the address, nothing has what follows the question mark."""
    address = f"http://127.0.0.1:{server.server_port}/own.csv"
    outcome = done("train", *RUN, f"dataset.path={address}?{SECRET}", f"run_dir={tmp_path}/run")
    assert server.asked == 1
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["data"]["path"] == facts["data"]["absolute"] == address
    assert address in (tmp_path / "run" / "config.yaml").read_text()
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert SECRET.encode() not in written
    assert SECRET not in outcome.out + outcome.err


def test_what_cannot_be_read_is_one_line(
    server: Server, store: Any, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the signature and without what the store said. Red if a file above the limit is copied whole, or if the
    names in a store, which others choose, decide where a copy is written."""
    base = f"http://127.0.0.1:{server.server_port}"
    store.pipe_file("/in/own.csv", BODY)
    store.store["/up/../../../escaped.csv"] = fsspec.implementations.memory.MemoryFile(
        store, "/up/../../../escaped.csv", BODY
    )
    with socket.socket() as free:  # bound and not listening: connections are refused
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/own.csv"
        for wanted, part in (
            (f"{base}/absent.csv?{SECRET}", f"{base}/absent.csv: no such file"),
            (f"{base}/closed.csv?{SECRET}", "answer 403"),
            (closed, f"{closed}: cannot be reached ("),
            ("http://me:pa55@127.0.0.1:1/own.csv", "without user name and password"),
            ("memory://in/own.csv", "memory://in/own.csv: more than 0.01 MB"),
            (f"{base}/own.csv", f"{base}/own.csv: more than 0.01 MB"),
            ("memory://up/**/*.csv", "expected the name of a file"),
        ):
            outcome = predicted(run, f"input={wanted}", "dataset.max_file_mb=0.01")
            refused(outcome, part)
            assert not any(secret in outcome.err for secret in (SECRET, "pa55"))
    monkeypatch.setitem(sys.modules, "fsspec", None)
    refused(predicted(run, "input=s3://bucket/own.csv"), "pip install fsspec, and s3fs (s3://)")


def test_a_checkpoint_causes_no_request(server: Server, store: Any, run: Path, tmp_path: Path) -> None:
    """Its data is at an address, whose checksum is right; only an address that the user names is read."""
    address = f"http://127.0.0.1:{server.server_port}/own.csv"
    shutil.copytree(run, tmp_path / "run")
    content = content_of(tmp_path / "run" / "best.safetensors")
    content["config"]["dataset"]["path"] = address
    content["data"]["path"] = address
    write_forged(tmp_path / "run" / "best.safetensors", content)
    refused(call("eval", f"checkpoint={tmp_path}/run"), "training data not found; set dataset.path=FILE")
    Forecaster.load(tmp_path / "run").predict(pd.read_csv(ROOT / "data" / "sample.csv"))
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace(f"path: {run.parent}/own.csv", f"path: {address}"))
    assert address in config.read_text()
    call("train", f"resume={tmp_path}/run", "trainer.max_steps=2")
    assert server.asked == 0
    done("eval", f"checkpoint={tmp_path}/run", f"dataset.path={address}", "plots=none")
    assert server.asked == 1


def test_python_reads_an_address(store: Any, tmp_path: Path) -> None:
    """As the same file on this machine, whose copy the run does not name."""
    store.pipe_file("/in/own.csv", BODY)
    (tmp_path / "own.csv").write_bytes(BODY)
    split = {"kind": "rows", "train": 200, "val": 50, "test": 70}
    settings = {"model": "linear", "seq_len": 24, "pred_len": 6, "dataset": {"split": split}}
    fitted = Forecaster(run_dir=tmp_path / "fitted", **settings).fit("memory://in/own.csv")
    assert "path: memory://in/own.csv" in (tmp_path / "fitted" / "config.yaml").read_text()
    expected = Forecaster(**settings).fit(tmp_path / "own.csv").predict(tmp_path / "own.csv")
    pd.testing.assert_frame_equal(fitted.predict("memory://in/own.csv"), expected)


def test_inspect_reads_an_address(server: Server, store: Any, tmp_path: Path) -> None:
    """The report of the same file on this machine, with the address in its commands, without the signature."""
    store.pipe_file("/in/own.csv", BODY)
    (tmp_path / "own.csv").write_bytes(BODY)
    here = call("inspect", f"{tmp_path}/own.csv")
    address = f"http://127.0.0.1:{server.server_port}/own.csv"
    for given, shown in (("memory://in/own.csv",) * 2, (f"{address}?{SECRET}", address)):
        outcome = call("inspect", given)
        assert (outcome.status, outcome.out) == (0, here.out.replace(f"{tmp_path}/own.csv", shown))
    assert server.asked == 1
    assert "dataset.path=memory://in\n" in done("inspect", "memory://in").out
    refused(call("inspect", "memory://absent.csv"), "memory://absent.csv: no such file")


@pytest.mark.slow
def test_forecast_of_an_address(server: Server, store: Any, tmp_path: Path) -> None:
    """One request for all that is made; the run records the address, nothing the signature, no page the copy."""
    address = f"http://127.0.0.1:{server.server_port}/own.csv"
    outcome = done(
        "forecast", f"{address}?{SECRET}", "model=linear", "horizon=6", f"output={tmp_path}/run", "dataset.exclude=[]"
    )
    assert server.asked == 1
    assert f"informer forecast {address} " in outcome.out
    assert f"path: {address}\n" in (tmp_path / "run" / "config.yaml").read_text()
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert any(path.name == "own.forecast.csv" for path in files)
    assert "could not be read" not in (tmp_path / "run" / "report.html").read_text()
    for content in (*(path.read_bytes() for path in files), outcome.out.encode(), outcome.err.encode()):
        assert SECRET.encode() not in content
    shown = (tmp_path / "run" / "report.html").read_text() + outcome.out
    assert "/informer-" not in shown


def test_report_reads_addresses(run: Path, store: Any, tmp_path: Path) -> None:
    """Forecasts of a store with their history."""
    store.pipe_file("/in/own.csv", BODY)
    assert predicted(run, f"input={run.parent}/own.csv", f"output={tmp_path}/out").status == 0
    for path in (tmp_path / "out").iterdir():
        store.pipe_file(f"/out/{path.name}", path.read_bytes())
    page = tmp_path / "page.html"
    refused(call("report", "memory://out"), "output: expected the path of a page for input=memory://out")
    done("report", "memory://out", "history=memory://in/own.csv", f"output={page}")
    content = page.read_text()
    assert "memory://in/own.csv" in content
    assert "No history was found" not in content
    assert "/informer-" not in content
