"""Models in the folder layout of the Hugging Face Hub, from a folder and from a server of this machine."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import pytest
from entry_points import ROOT, Trained
from web import Handler, serving

from informer import Forecaster, InputError


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"]).iloc[:100]


@pytest.fixture(scope="module")
def saved(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "new" / "model"
    Forecaster.load(trained.run_dir, device="cpu").save_pretrained(folder)
    return folder


class Hub(ThreadingHTTPServer):
    """Answers as the Hub does for the files of one public repository, `anyone/model`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.folder = folder


class Answers(Handler):
    server: Hub

    def do_GET(self) -> None:
        path = self.server.folder / self.path.rpartition("/")[2]
        if not self.path.startswith("/anyone/model/resolve/main/") or not path.is_file():
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = path.read_bytes()
        self.send_response(200)
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET


@pytest.fixture
def address(saved: Path) -> Iterator[str]:
    pytest.importorskip("huggingface_hub")
    with serving(Hub(saved)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def test_a_folder_holds_the_model_what_it_is_and_a_card(trained: Trained, saved: Path, table: pd.DataFrame) -> None:
    """Red if forecasts differ, the card lacks what the Hub lists, or a file names a folder of the training data."""
    assert sorted(path.name for path in saved.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    ahead = Forecaster.from_pretrained(saved, device="cpu").predict(table)
    pd.testing.assert_frame_equal(ahead, Forecaster.load(trained.run_dir, device="cpu").predict(table))
    facts, card = json.loads((saved / "config.json").read_text()), (saved / "README.md").read_text()
    assert (facts["seq_len"], facts["pred_len"], facts["model"]["family"]) == (24, 6, "informer")
    assert card.startswith("---\nlibrary_name: informer-forecasting\npipeline_tag: time-series-forecasting\ntags: [")
    assert [word for word in (*facts["targets"], "6 rows ahead", "mae", "naive") if word not in card] == []
    everything = b"".join(path.read_bytes() for path in saved.iterdir())
    assert str(ROOT).encode() not in everything
    assert str(trained.run_dir).encode() not in everything


def test_another_model_than_the_one_described_is_refused(saved: Path, tmp_path: Path) -> None:
    """Red if a model is used that is damaged, or that someone put next to the description of another one."""
    content = (saved / "model.safetensors").read_bytes()
    (tmp_path / "config.json").write_text(json.dumps({"sha256": "0" * 64}))
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"is not the model that config.json describes"):
        Forecaster.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="is damaged"):
        Forecaster.from_pretrained(tmp_path)


ELSEWHERE = """
import sys, pandas as pd
from informer import Forecaster, InputError
try:
    Forecaster.from_pretrained("anyone/other")
except InputError as error:
    print(error, file=sys.stderr)
table = pd.read_csv(sys.argv[1], parse_dates=["date"]).iloc[:100]
Forecaster.from_pretrained("anyone/model", device="cpu").predict(table).to_csv(sys.stdout)
"""


def test_a_repository_of_the_hub(address: str, saved: Path, table: pd.DataFrame, tmp_path: Path) -> None:
    """In a process of its own, because huggingface_hub reads its address once. Red if another file is fetched, or a
    repository that does not exist ends in a traceback."""
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(ROOT / "data/sample.csv")],
        env=os.environ | {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = Forecaster.from_pretrained(saved, device="cpu").predict(table)
    assert done.stdout == expected.to_csv()
    assert "expected a folder or a repository of the Hub such as name/model, found anyone/other" in done.stderr
