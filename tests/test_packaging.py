"""The ways of starting the program: a built wheel, an editable install, a checkout."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml
from entry_points import ROOT, SMALL, call

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("build", "hatchling", "pip")),
        reason="needs build, hatchling and pip next to the tests (pip install build hatchling)",
    ),
]

TRAIN = ["dataset=sample", *SMALL, "trainer.max_steps=1"]


def ran(*command: str | Path, cwd: Path) -> str:
    """Output of a command that must succeed, without this checkout on its path."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "INFORMER_DATA_DIR")}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    ran(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("informer_forecasting-*.whl")
    return path


def installed(folder: Path, *what: str | Path) -> Path:
    """The bin folder of a fresh environment: the package from `what`, all it depends on from this one."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-build-isolation"]
    # the build needs hatchling where it runs; paths in a .pth file bring no further .pth files with them
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    ran(*pip, "--disable-pip-version-check", *what, cwd=folder)
    return python.parent


def home(scripts: Path, cwd: Path) -> Path:
    """Folder of the installed package."""
    return Path(ran(scripts / "python", "-c", "import informer; print(informer.__path__[0])", cwd=cwd).strip())


def test_what_is_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = [path.relative_to(ROOT) for path in (ROOT / "conf").rglob("*.*")]
    assert {f"informer/{path}" for path in shipped} <= names
    assert "informer/data/sample.csv" in names
    assert {f"informer/report/assets/page.{ending}" for ending in ("html", "css", "js")} <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"informer"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the repository, whose files are listed")
def test_what_is_in_the_source_distribution(tmp_path: Path) -> None:
    """Red when a file that the tests or the documentation read is left out."""
    ran(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(ran("git", "ls-files", cwd=ROOT).splitlines()) <= names


def test_a_wheel(wheel: Path, tmp_path: Path) -> None:
    scripts, here = installed(tmp_path / "env", wheel), tmp_path / "here"
    here.mkdir()
    assert home(scripts, here).is_relative_to(tmp_path / "env")
    sample = home(scripts, here) / "data" / "sample.csv"
    ran(scripts / "informer", "train", *TRAIN, cwd=here)
    assert re.search(r"report: runs/20.*/eval", ran(scripts / "python", "-m", "informer.eval", cwd=here))
    ran(scripts / "python", "-m", "informer.predict", f"input={sample}", "output=out", cwd=here)
    assert {path.name for path in here.iterdir()} == {"runs", "out"}
    assert (here / "out" / "sample.forecast.csv").exists()


@pytest.mark.skipif(importlib.util.find_spec("editables") is None, reason="needs editables (pip install editables)")
def test_an_editable_install(tmp_path: Path) -> None:
    scripts, here = installed(tmp_path / "env", "-e", ROOT), tmp_path / "here"
    here.mkdir()
    assert home(scripts, here) == ROOT / "informer"
    assert "  train " in ran(scripts / "informer", "--help", cwd=here)


DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    """Red when a file of the build is moved, or .dockerignore leaves it out."""
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.M) for name in shlex.split(line)[:-1]}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)


def test_its_command_is_known() -> None:
    """Red when a key of the entry point is renamed."""
    program, command, *keys = json.loads(re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.M)[0])
    assert (program, command) == ("informer", "serve")
    outcome = call("serve", "--cfg", "job", *keys)
    assert (outcome.status, outcome.err) == (0, "")
    assert "host: 0.0.0.0\n" in outcome.out
    assert "EXPOSE 8000\n" in DOCKERFILE
    assert "\nport: 8000\n" in outcome.out
    assert "checkpoint: null\n" in outcome.out


def test_the_example_of_compose_starts_the_service() -> None:
    """Red when a setting in it is renamed, or the metrics are at another port."""
    (text,) = re.findall(r"```yaml\n(services:.*?)```", (ROOT / "docs" / "serving.md").read_text(), re.DOTALL)
    described = yaml.safe_load(text)
    outcome = call("serve", "--cfg", "job", *described["services"]["informer"]["command"])
    assert (outcome.status, outcome.err) == (0, "")
    scraped = yaml.safe_load(described["configs"]["scrape"]["content"])["scrape_configs"]
    assert scraped[0]["static_configs"] == [{"targets": ["informer:8000"]}]
