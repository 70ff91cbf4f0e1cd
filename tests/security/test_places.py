"""A checkpoint or a run directory decides nothing about where files are read, written or fetched."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from functools import reduce
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import web
import yaml
from entry_points import ROOT, SMALL, TENSORBOARD, Trained, call, done, flat, refused
from forgery import content_of, write_forged

Tree = Callable[[Path], dict[str, bytes | None]]

BODY = (ROOT / "data" / "sample.csv").read_bytes()
SHA256 = hashlib.sha256(BODY).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves the sample data at every address, and counts who asks."""

    asked = 0

    @property
    def address(self) -> str:
        """Of a file on it."""
        return f"http://127.0.0.1:{self.server_port}/own.csv"


class Handler(web.Handler):
    """Answers with BODY."""

    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked += 1
        self.answer(200, BODY)


@pytest.fixture
def server() -> Iterator[Server]:
    with web.serving(Server(("127.0.0.1", 0), Handler)) as http:
        yield http


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a file of the user, in a folder with that file."""
    place = tmp_path_factory.mktemp("own")
    (place / "own.csv").write_bytes(BODY)
    arguments = ["dataset=csv", f"dataset.path={place}/own.csv", *SMALL, TENSORBOARD, "trainer.max_steps=1"]
    done("train", *arguments, f"run_dir={place}/run")
    return place


@pytest.fixture
def own(own_run: Path, folder: Path) -> Path:
    """A copy of the run, as if it came from somewhere else: its data are not there."""
    shutil.copytree(own_run / "run", folder / "run")
    return folder


def forge(best: Path, data: dict[str, Any] | None = None, config: dict[str, Any] | None = None, **dataset: Any) -> None:
    """Change the record of a checkpoint in place."""
    content = content_of(best)
    content["config"]["dataset"] |= dataset
    content["config"] |= config or {}
    content["data"] |= data or {}
    write_forged(best, content)


def forge_yaml(run: Path, config: dict[str, Any] | None = None, **dataset: Any) -> None:
    """The same in config.yaml."""
    content = yaml.safe_load((run / "config.yaml").read_text())
    content["dataset"] |= dataset
    (run / "config.yaml").write_text(yaml.safe_dump(content | (config or {})))


def unfinished(run: Path, *, saved: bool = True) -> None:
    """As if it had been killed."""
    for name in ("metrics.json", "metrics.csv", *(() if saved else ("best.safetensors", "last.safetensors"))):
        (run / name).unlink()


def test_nothing_is_fetched_for_a_checkpoint(
    own: Path, server: Server, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if url, file or sha256 of the record are used: the file would be written, and stay. The address of a known
    name is the package's."""
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nobody answers there
    best, there = own / "run" / "best.safetensors", {"data_dir": str(own / "there")}
    theirs = {"path": None, "url": server.address, "sha256": SHA256}
    for forged in ({"file": f"{own}/written.pth"}, {"file": "written.csv", "sha256": None}):
        forge(best, {"sha256": SHA256}, there, **theirs | forged)
        before = tree(own)
        refused(call("eval", "checkpoint=run"), "dataset.path=")
        assert tree(own) == before
    forge(best, {"sha256": SHA256}, {"data_dir": "data"}, **theirs | {"name": "ETTh1", "file": "ETTh1.csv"})
    address = yaml.safe_load((ROOT / "conf/dataset/ETTh1.yaml").read_text())["url"]
    refused(call("eval", "checkpoint=run"), f"cannot download {address} (", "data/ETTh1.csv")
    unfinished(own / "run", saved=False)
    forge_yaml(own / "run", there, **theirs | {"file": "../written.csv"})
    before = tree(own)
    refused(call("train", "resume=run"), "dataset.path=")
    assert tree(own) == before
    assert server.asked == 0


def test_what_the_user_names_is_fetched(folder: Path, server: Server) -> None:
    """The same keys, from the command line."""
    named = ["dataset.file=own.csv", f"dataset.url={server.address}", f"dataset.sha256={SHA256}"]
    done("train", "dataset=csv", *named, *SMALL, "trainer.max_steps=1", "run_dir=run")
    assert (folder / "data" / "own.csv").read_bytes() == BODY
    done("eval", "checkpoint=run", "plots=none")
    assert server.asked == 1


PLACES = {"attn", "data_dir", "init_from", "run_dir", "dataset.file", "dataset.path", "dataset.url"}
SETTINGS = flat(yaml.safe_load(done("train", "--cfg", "job").out))
KEYS = sorted(PLACES | {key for key, value in SETTINGS.items() if isinstance(value, str | None) and "attn." not in key})


@pytest.mark.parametrize(
    "keys", [PLACES, pytest.param({*KEYS} - PLACES, marks=pytest.mark.slow)], ids=["places", "all"]
)
def test_no_text_of_a_configuration_is_a_place(keys: set[str], own: Path, server: Server, tree: Tree) -> None:
    """Red if any key of a saved configuration, today's or one to come, makes a file or opens a connection; keys that
    are not of places get one of both, in turn."""
    texts, best = [f"{own}/away/file.csv", server.address], own / "run" / "best.safetensors"
    whole = best.read_bytes()
    for place, key in enumerate(sorted(keys)):
        for text in texts if key in PLACES else [texts[place % 2]]:
            best.write_bytes(whole)
            config = content_of(best)["config"]
            *above, last = key.split(".")
            reduce(lambda node, part: node[part], above, config)[last] = text
            forge(best, config=config)
            before = tree(own)
            call("eval", "checkpoint=run", "output=report", "plots=none", "overwrite=true")
            assert {path for path in tree(own).keys() - before.keys() if not path.startswith("report")} == set(), key
            assert server.asked == 0, key


def test_another_file_is_not_read(own: Path) -> None:
    """Red if a recorded path is read whatever its content (its numbers would show in a report, its text in an error),
    or the program waits for a pipe, searches the whole disk or stops with a traceback."""
    (own / "secret.csv").write_text("date,password\n2020-01-01,xyzzy\n")
    os.mkfifo(own / "pipe")
    paths = [str(own / "pipe"), str(own / "absent"), str(own), "//127.0.0.1/share/own.csv", "/**/own.csv", "own\0.csv"]
    for path in (str(own / "secret.csv"), *paths, "a\nb\x1b[2J"):
        forge(own / "run" / "best.safetensors", path=path)
        outcome = call("eval", "checkpoint=run")
        refused(outcome, "dataset.path=")
        assert "\x1b" not in outcome.err
        assert "xyzzy" not in outcome.err
        assert "password" not in outcome.err


def test_no_file_is_written_in_a_recorded_folder(own: Path, own_run: Path, tree: Tree) -> None:
    """Red if data_dir of the record makes files elsewhere; the data of an own run are found without their path."""
    unfinished(own / "run", saved=False)
    forge_yaml(own / "run", {"data_dir": str(own / "away")})
    before = set(tree(own)) | {"runs"}
    done("train", "resume=run")
    assert {path for path in set(tree(own)) - before if not path.startswith("run/")} == set()
    shutil.copy(own_run / "run" / "best.safetensors", own / "run" / "best.safetensors")
    forge(own / "run" / "best.safetensors", config={"data_dir": str(own / "away")})
    done("eval", "checkpoint=run", "output=report", "plots=none")
    assert {path.name for path in (own / "report").iterdir()} == {
        *("metrics.json", "metrics.csv", "attention.json", "test_forecasts.parquet")
    }
    assert not (own / "away").exists()


@pytest.mark.parametrize("name", ["train.log", "events.out.tfevents.run", "eval"])
def test_links_in_a_run_directory_are_not_followed(name: str, own: Path, tree: Tree) -> None:
    """Red if a run that came with links makes the program write where they lead."""
    (own / "mine").mkdir()
    (own / "mine" / "file").write_text("mine\n")
    unfinished(own / "run", saved=name == "eval")
    (own / "run" / name).unlink(missing_ok=True)
    (own / "run" / name).symlink_to(own / "mine" / ("." if name == "eval" else "file"))
    before = tree(own / "mine")
    outcome = call("eval", "checkpoint=run") if name == "eval" else call("train", "resume=run")
    refused(outcome, name, "found a link")
    assert tree(own / "mine") == before


def test_weights_and_data_that_a_run_directory_names_are_not_read(own: Path, trained: Trained) -> None:
    """Red if a run that has saved nothing reads another checkpoint because its configuration says so, or has a file
    read by leaving the checksum out."""
    unfinished(own / "run", saved=False)
    forge_yaml(own / "run", {"init_from": str(trained.run_dir)})
    refused(call("train", "resume=run"), "name them again: init_from=RUN")
    refused(call("train", "resume=run", "init_from=absent"), "absent does not exist")
    forge_yaml(own / "run", {"init_from": None})
    (own / "run" / "run.json").write_text("{}")
    refused(call("train", "resume=run"), "no checksum of its data", "dataset.path=FILE")
    (own / "own.csv").write_bytes(BODY)
    done("train", "resume=run", "dataset.path=own.csv")


@pytest.mark.slow
def test_a_run_elsewhere_leaves_nothing_here_and_is_scored_from_anywhere(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if `runs/latest` appears next to the data, or the data are only found from the folder of training, or only
    without a folder of datasets, which has nothing to do with a file of one's own."""
    monkeypatch.setenv("INFORMER_DATA_DIR", str(tmp_path))
    for name in ("here", "there"):
        Path(name).mkdir()
    run_dir = tmp_path / "elsewhere" / "x"
    with contextlib.chdir("here"):
        shutil.copy(ROOT / "data" / "sample.csv", "own.csv")
        done("train", "own.csv", "model=linear", "seq_len=24", "pred_len=6", f"run_dir={run_dir}")
        assert os.listdir() == ["own.csv"]
    assert os.listdir(run_dir.parent) == ["x"]
    with contextlib.chdir("there"):
        done("eval", f"checkpoint={run_dir}", "plots=none")
        assert os.listdir() == []
    assert (run_dir / "eval/metrics.json").read_bytes() == (run_dir / "metrics.json").read_bytes()
    # other content at that path is not the data of the run
    Path("here/own.csv").write_text(Path("here/own.csv").read_text().replace("1", "2"))
    with contextlib.chdir("there"):
        assert "training data not found" in call("eval", f"checkpoint={run_dir}", "plots=none").err
