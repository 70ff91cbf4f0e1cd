"""Work on a Ray cluster: actors that each hold a worker take items in turn; dead ones are started again."""

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from informer.base.errors import InputError

SHARED_MEMORY = 100 << 20
"""Bytes of the object store of a local cluster; it holds only file names and outcomes."""

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
}
"""Defaults for Ray's environment variables: no usage reports, and logs only in Ray's files."""


def mapped(
    worker: type, arguments: Sequence[Any], items: Sequence[Any], *, device: str, workers: int | None
) -> Iterator[Any]:
    """Results of `worker(folder, threads, *arguments).work` for each item, in order, on the cluster of `cluster`.

    A worker is built in each actor; with this folder and as many threads as this process has, it writes the same files.
    Every machine of the cluster must see them at the same paths.

    Args:
        worker: a class; doing the work of an item again changes nothing.
        device: "cpu", or "cuda" for one GPU per actor.
        workers: number of actors; None: one per CPU (or GPU).

    Raises:
        InputError: see `cluster`.
    """
    if not items:
        return
    with cluster(workers):
        import ray
        from ray.util import ActorPool

        unit = "GPU" if device == "cuda" else "CPU"
        n_workers = min(workers or max(1, int(ray.cluster_resources().get(unit, 1))), len(items))
        actor: Any = ray.remote(num_cpus=1, num_gpus=int(unit == "GPU"), max_restarts=-1, max_task_retries=-1)(worker)
        actors: list[Any] = [actor.remote(Path.cwd(), torch.get_num_threads(), *arguments) for _ in range(n_workers)]
        yield from ActorPool(actors).map(lambda each, item: each.work.remote(item), [*items])


def check_installed() -> None:
    """Raise an InputError if Ray is not installed."""
    if find_spec("ray") is None:
        raise InputError("engine=ray: expected Ray, found none; pip install ray")


@contextmanager
def cluster(workers: int | None) -> Iterator[None]:
    """Connect to the cluster at RAY_ADDRESS, otherwise start a local one; an existing connection is reused.

    Raises:
        InputError: Ray is not installed, no cluster is at that address, or the local one does not start.
    """
    check_installed()
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray  # which reads these variables

    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS", "local")
    ours: dict[str, Any] = {"num_cpus": workers, "object_store_memory": SHARED_MEMORY, "include_dashboard": False}
    try:
        host, _, port = address.rpartition("://")[2].rpartition(":")
        if port.isdigit():  # Ray would try for ten minutes to reach what does not answer
            socket.create_connection((host, int(port)), timeout=10).close()
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
