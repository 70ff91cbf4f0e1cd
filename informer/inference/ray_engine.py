"""Chunks of a job on a Ray cluster: Ray Data passes them to actors that each hold the model, and restarts dead actors.

An actor processes a chunk like the local engine: same folder, same number of threads, same files together. So it
writes the same files, and repeating a chunk after its actor was killed changes nothing.
"""

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast, final

import torch

from informer.base.errors import InputError
from informer.inference.files import Chunk, Done, Engine, InputFile, Job, Row, forecast_files
from informer.inference.model import TrainedModel

SHARED_MEMORY = 100 << 20
"""Bytes of the object store of a local cluster; it holds only file names and outcomes."""

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DATA_LOG_LEVEL": "ERROR",
}
"""Defaults for Ray's environment variables: no usage reports, and logs only in Ray's files."""


def ray_engine(*, device: str, workers: int | None) -> Engine:
    """Engine that runs chunks on the cluster at RAY_ADDRESS, otherwise on a local cluster that ends with the job.

    Every machine of the cluster must see checkpoint, files and output folder at the same paths.

    Args:
        device: "cpu", or "cuda" for one GPU per actor.
        workers: number of actors; None: one per CPU (or GPU).

    Raises:
        InputError: Ray is not installed.
    """
    if find_spec("ray") is None:
        raise InputError("engine=ray: expected Ray, found none; pip install 'ray[data]'")
    return lambda job, chunks: _outcomes(job, list(chunks), device, workers)


@final
class _Worker:
    """An actor: loads the model once, then processes chunks given as plain containers."""

    def __init__(self, job: Job, device: str, folder: Path, threads: int) -> None:
        os.chdir(folder)
        torch.set_num_threads(threads)
        self._job = job
        self._model = TrainedModel.load(job.checkpoint, device=device)

    def __call__(self, chunk: dict[str, Any]) -> dict[str, Any]:
        sources = [InputFile(Path(path), name) for path, name in zip(chunk["paths"], chunk["names"], strict=True)]
        rows, long = forecast_files(self._model, self._job, sources)
        return {"rows": [asdict(row) for row in rows], "long": long}


def _outcomes(job: Job, chunks: Sequence[Chunk], device: str, workers: int | None) -> Iterator[Done]:
    if not chunks:
        return
    with cluster(workers):
        import ray.data

        unit = "GPU" if device == "cuda" else "CPU"
        size = workers or capacity(unit)
        plain = [
            {"paths": [str(source.path) for source in chunk], "names": [source.name for source in chunk]}
            for chunk in chunks
        ]
        data = ray.data.from_items(plain, override_num_blocks=len(plain))
        data.context.execution_options.preserve_order = True
        data.context.enable_progress_bars = False
        outcomes = data.map(
            cast(Any, _Worker),  # a class is accepted too
            fn_constructor_args=(job, device, Path.cwd(), torch.get_num_threads()),
            compute=ray.data.ActorPoolStrategy(size=min(size, len(chunks))),
            num_cpus=1,
            num_gpus=int(unit == "GPU"),
        )
        for outcome in outcomes.iter_rows():
            yield Done([Row(**row) for row in outcome["rows"]], outcome["long"])


def capacity(unit: str) -> int:
    """Number of workers for which the connected cluster has one `unit` each, "CPU" or "GPU"; at least 1."""
    import ray

    return max(1, int(ray.cluster_resources().get(unit, 1)))


@contextmanager
def cluster(workers: int | None) -> Iterator[None]:
    """Connect to the cluster at RAY_ADDRESS, otherwise start a local one; an existing connection is reused.

    Raises:
        InputError: Ray is not installed, no cluster is at that address, or the local one does not start.
    """
    if find_spec("ray") is None:
        raise InputError("engine=ray: expected Ray, found none; pip install 'ray[data]'")
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray  # which reads these variables

    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS", "local")
    ours: dict[str, Any] = {"num_cpus": workers, "object_store_memory": SHARED_MEMORY, "include_dashboard": False}
    try:
        check_reachable(address)
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **(ours if address == "local" else {}))
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"RAY_ADDRESS={address}: expected a Ray cluster, found none ({reason})") from error
    except Exception as error:  # Ray raises this type if a process of it does not start in time
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise InputError(
            f"engine=ray: expected Ray to start on RAY_ADDRESS={address}, it did not ({reason}); run it again when the "
            "machine has memory and processors free, or without engine=ray"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def check_reachable(address: str) -> None:
    """Raise an OSError if nothing answers at host:port; Ray would retry for ten minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()
