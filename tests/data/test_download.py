"""A local server with every fault that a download can meet."""

import hashlib
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import web

from informer import InputError
from informer.config.data import DatasetConfig
from informer.read.files import find_file
from informer.read.remote import fetch

BODY = b"date,a\n2020-01-01,1\n2020-01-02,2\n" * 50
SHA256 = hashlib.sha256(BODY).hexdigest()


class Handler(web.Handler):
    """/whole, /cut (half of the announced body), /wrong (another body), anything else is an error 500."""

    def do_GET(self) -> None:
        if self.path not in ("/whole", "/cut", "/wrong"):
            self.send_error(500)
            return
        body = BODY.upper() if self.path == "/wrong" else BODY
        self.answer(200, body[: len(body) // 2] if self.path == "/cut" else body, len(body))


@pytest.fixture
def server() -> Iterator[str]:
    with web.serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as http:
        yield f"http://127.0.0.1:{http.server_port}"


def test_a_missing_file_is_fetched_once(server: str, tmp_path: Path) -> None:
    config = DatasetConfig(name="d", file="d.csv", url=f"{server}/whole", sha256=SHA256)
    folder = tmp_path / "new"
    path = find_file(config, folder)
    assert path.read_bytes() == BODY
    assert [file.name for file in folder.iterdir()] == ["d.csv"]
    config.url = f"{server}/broken"
    assert find_file(config, folder) == path


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("cut", f"{len(BODY) // 2:,} of {len(BODY):,} bytes arrived"),
        ("wrong", f"its sha256 is not {SHA256}"),
        ("broken", "500"),
        ("no server", ""),
        ("file", "expected https:// or http://"),
    ],
)
def test_a_fault_leaves_nothing_behind_and_says_what_to_do(
    fault: str, why: str, server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    others = {"no server": "http://127.0.0.1:9/none", "file": Path(__file__).as_uri()}
    with pytest.raises(InputError, match=r"cannot download .*; download it manually to .*d\.csv") as error:
        fetch(others.get(fault, f"{server}/{fault}"), tmp_path / "new" / "d.csv", sha256=SHA256)
    assert why in str(error.value)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_nothing_is_fetched_without_a_checksum(server: str, tmp_path: Path) -> None:
    """Fails if the content of an address is used without checking it."""
    config = DatasetConfig(name="d", file="d.csv", url=f"{server}/whole")
    with pytest.raises(InputError, match=r"needs dataset\.sha256, the file's checksum"):
        find_file(config, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../d.csv", "/d.csv", "a/d.csv", "a\\d.csv", "c:d.csv", "..", "", "a\0"])
def test_a_file_of_a_dataset_is_a_name_in_the_data_folder(name: str, server: str, tmp_path: Path) -> None:
    """Red if a name leads out of the data folder."""
    config = DatasetConfig(name="d", file=name, url=f"{server}/whole", sha256=SHA256)
    assert [*config.problems()]
    with pytest.raises(InputError, match=r"dataset\.file: expected the name of a file in data_dir"):
        find_file(config, tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_an_address(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"d: .*d.csv does not exist; ask its author"):
        find_file(DatasetConfig(name="d", file="d.csv", hint="ask its author"), tmp_path)
    with pytest.raises(InputError, match=r"d: .*d.csv does not exist; put it there, or set dataset.path or data_dir"):
        find_file(DatasetConfig(name="d", file="d.csv"), tmp_path)
    with pytest.raises(InputError, match=r"dataset.path: expected a CSV file, found none: .*dataset.path=my.csv"):
        find_file(DatasetConfig(), tmp_path)
