"""Environment of the program: resource files, device, seeds, versions."""

import os
import platform
import random
import re
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
LIBRARIES = ("informer-forecasting", "torch", "numpy", "pandas", "scikit-learn", "hydra-core")


def resource(name: str) -> Path:
    """A file or folder that ships with the project (`conf`, `data/sample.csv`).

    In a wheel it is inside the package; in a checkout or an editable install next to it.
    """
    inside = PACKAGE / name
    return inside if inside.exists() else PACKAGE.parent / name


DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d{1,3})?")
"""auto: the first CUDA GPU if available, otherwise the CPU; cuda:1: the second one; mps: Apple's GPU."""


def device_problems(name: str) -> list[str]:
    """An error message if this is not the name of a device; `pick_device` checks whether it is available."""
    return [] if DEVICE.fullmatch(name) else [f"device: expected auto, cpu, cuda, cuda:1 or mps, found {name!r}"]


def pick_device(name: str) -> Any:
    """The torch.device for `auto`, `cpu`, `cuda`, `cuda:1` or `mps`.

    Raises:
        InputError: not such a name, no such device, or fewer GPUs than processes of torchrun.
    """
    import torch

    from informer.base.errors import InputError

    if problems := device_problems(name):
        raise InputError(problems[0])
    if name == "mps":
        if not torch.backends.mps.is_available():
            raise InputError(f"device=mps: expected an Apple GPU, torch finds none; {_found()}")
        return torch.device("mps")
    kind, _, number = name.partition(":")
    available = torch.cuda.is_available()
    if kind == "cuda" and not available:
        raise InputError(f"device={name}: expected a CUDA GPU, torch finds none; {_found()}")
    if kind == "cpu" or not available:
        return torch.device("cpu")
    index = int(number or os.environ.get("LOCAL_RANK", "0"))
    if number and "LOCAL_RANK" in os.environ:
        raise InputError(f"device={name}: torchrun assigns a GPU to each process; use device=cuda")
    if number and index >= torch.cuda.device_count():
        raise InputError(f"device={name}: torch finds no such GPU; {_found()}")
    if index >= torch.cuda.device_count():
        raise InputError(
            f"torchrun: expected at most one process per GPU, of {torch.cuda.device_count()}; use device=cpu"
        )
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _found() -> str:
    """Advice that lists the available devices."""
    import torch

    n = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ["auto", "cpu", *(f"cuda:{i}" for i in range(n)), *(["mps"] if torch.backends.mps.is_available() else [])]
    return f"use one of device={'|'.join(names)}"


def process_rank() -> int:
    """Number of this process among those that torchrun started; 0 without torchrun."""
    return int(os.environ.get("RANK", "0"))


def seed_everything(seed: int) -> None:
    """Seed all global generators that the program uses."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (libraries below may draw from the global generator)
    torch.manual_seed(seed)


def set_deterministic(enabled: bool) -> None:
    """Set whether torch may only use deterministic algorithms; must be called before CUDA starts."""
    import torch

    if enabled:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if torch.are_deterministic_algorithms_enabled() != enabled:  # setting it imports a compiler
        torch.use_deterministic_algorithms(enabled)
    torch.backends.cudnn.deterministic = enabled


_SIGNATURE = re.compile(r"(https?://[^\s?]*)\?\S*")
"""The query of an address may be a signature that grants access, so it is not saved."""


def provenance() -> dict[str, Any]:
    """Provenance of a result: command, versions, commit, machine, time."""
    import torch

    path = Path(sys.argv[0])  # a script that calls the package is `python NAME`, a command has its name
    is_script = path.suffix == ".py" and PACKAGE.resolve() not in path.resolve().parents
    return {
        "command": ["python"] * is_script + [path.name, *(_SIGNATURE.sub(r"\1", word) for word in sys.argv[1:])],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": versions(),
        "commit": _commit(),
        "threads": torch.get_num_threads(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
        "platform": platform.platform(),
    }


def versions() -> dict[str, str | None]:
    """Versions of this package and the libraries; None if one is not installed as a package."""
    installed: dict[str, str | None] = dict.fromkeys(LIBRARIES)
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def _commit() -> str | None:
    """Commit of this checkout, marked if files differ from it; None outside a checkout."""
    if not (PACKAGE.parent / ".git").exists():
        return None
    git = ["git", "-C", str(PACKAGE.parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("-dirty" if changed.stdout.strip() else "")
