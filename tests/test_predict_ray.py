"""A job on a Ray cluster of this machine: the files of the local engine, whatever dies on the way."""

import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from entry_points import ROOT, Trained, call, refusal

from informer.base.runtime import resource

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None or not Path("/proc/self/fd").exists(), reason="needs ray, and Linux's list of open files"
)

Tree = Callable[[Path], dict[str, bytes | None]]
STUCK = Path("in/s4.csv")
"""The file that an actor is stopped within."""
LONG = 60_000_000
"""Bytes of a file that is still being read when the next look finds its reader."""


@pytest.fixture
def job(trained: Trained, folder: Path) -> list[str]:
    """Seven good files and a bad one, two at a time, forecast into `local`; arguments for the same on Ray."""
    sample = pd.read_csv(resource("data/sample.csv"))
    Path("in").mkdir()
    for i in range(7):
        sample.iloc[i * 100 : i * 130 + 60].to_csv(f"in/s{i}.csv", index=False)
    Path("in/s3broken.csv").write_bytes(b"date,demand\n2024-01-01,\x00\xff\n")
    arguments = [f"checkpoint={trained.run_dir}", "input=in", "batch_size=2"]
    assert call("predict", *arguments, "output=local").status == 1
    return [*arguments, "output=out", "engine=ray", "workers=2"]


class Running:
    """`informer.predict` as a process with its children, which all have a marker in their environment."""

    def __init__(self, arguments: list[str]) -> None:
        word = uuid.uuid4().hex
        self._known = f"OF_THIS_JOB={word}".encode()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "informer.predict", *arguments],
            env=os.environ | {"PYTHONPATH": str(ROOT), "OF_THIS_JOB": word},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for_reader(self, path: Path) -> int:
        """The process that has begun to read a file."""
        own = str(os.getpid())
        while self.process.poll() is None:
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):  # it has ended, or is another user's
                    for opened in (process / "fd").iterdir():
                        if process.name != own and _link(opened) == str(path.resolve()):
                            return int(process.name)
            with suppress(subprocess.TimeoutExpired):  # leave the processors to Ray
                self.process.wait(0.05)
        raise AssertionError(self.process.communicate()[1])

    def end(self) -> tuple[int, str, str]:
        """Exit status and what was printed."""
        out, err = self.process.communicate()
        return self.process.returncode, out, err

    def left(self) -> list[str]:
        """Command lines of the processes that outlive the job by a minute."""
        end = time.monotonic() + 60
        while (alive := list(self._alive())) and time.monotonic() < end:
            _wait_for(alive[0][0], end - time.monotonic())
        return [command for _, command in alive]

    def _alive(self) -> Iterator[tuple[int, str]]:
        """Process ids and command lines."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self._known in (process / "environ").read_bytes().split(b"\0"):
                    yield int(process.name), (process / "cmdline").read_text()
            except OSError:  # it has ended, or is another user's
                continue


def _wait_for(number: int, seconds: float) -> None:
    """Until this process has ended, but not longer."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(number)
        try:
            select.select([handle], [], [], seconds)
        finally:
            os.close(handle)


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


@contextmanager
def long_instead(path: Path) -> Iterator[None]:
    """A file in the place of another that takes seconds to read; the other one again afterwards."""
    aside = path.rename("aside")
    header, _, rows = aside.read_text().partition("\n")
    path.write_text(f"{header}\n{rows * (LONG // len(rows))}")
    try:
        yield
    finally:
        aside.replace(path)


@needs_ray
@pytest.mark.slow
def test_a_killed_actor_loses_nothing(job: list[str], tree: Tree) -> None:
    """Red if a chunk is lost or done otherwise, or a bad file ends the job, or chunks come in the order they end in."""
    job.append("format=long")
    assert call("predict", *job, "output=long", "engine=local", "workers=null").status == 1
    with long_instead(STUCK):
        running = Running(job)
        actor = running.wait_for_reader(STUCK)
        assert actor != running.process.pid
        os.kill(actor, signal.SIGSTOP)  # so that it does not come to the end of the file
    os.kill(actor, signal.SIGKILL)
    status, out, err = running.end()
    assert status == 1, err
    assert "7 files forecast, 1 failed: out/summary.csv" in out
    assert "Traceback" not in err
    assert tree(Path("out")) == tree(Path("long"))
    assert running.left() == []


@needs_ray
@pytest.mark.slow
def test_ctrl_c_leaves_no_process_and_what_is_left_is_done_later(job: list[str], tree: Tree) -> None:
    with long_instead(STUCK):
        running = Running(job)
        running.wait_for_reader(STUCK)
        os.killpg(running.process.pid, signal.SIGINT)  # as a terminal does
        status, _, err = running.end()
        assert (status, "Traceback" in err) == (130, False), err
        assert running.left() == []
    assert not Path("out/summary.csv").exists()
    outcome = call("predict", *job[:-2], "resume=true")  # here; it is the same job
    assert (outcome.status, outcome.err) == (1, "")
    assert "7 files forecast (" in outcome.out
    assert tree(Path("out")) == tree(Path("local"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["engine=ray", "input=in/s1.csv"], "engine=ray: only for a folder or pattern of files, found a single file"),
        (["engine=local"], "workers: only used with engine=ray, found workers=2"),
        (["workers=0"], "workers: expected at least 1, found 0"),
        pytest.param(
            ["output=nowhere"],
            "RAY_ADDRESS=127.0.0.1:1: expected a Ray cluster, found none",
            marks=pytest.mark.skipif(find_spec("ray") is None, reason="needs ray"),
        ),
    ],
)
def test_a_wrong_job_is_one_line(
    arguments: list[str], message: str, job: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    line = refusal("predict", *job, *arguments)
    assert line.startswith("error: ")
    assert message in line
