"""Run a function of a script on a Ray cluster, each call as a separate task.

Every machine of the cluster must see the same folders at the same paths. A call whose worker dies is not repeated,
since its child processes may still run: it fails, and the script can be run again for the rest.
"""

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from informer.inference.ray_engine import cluster

Given = TypeVar("Given")


@contextmanager
def on_ray(work: Callable[[Given], str], workers: int) -> Iterator[Callable[[Given], str]]:
    """The function, called on the cluster at RAY_ADDRESS, otherwise on a local one.

    Args:
        work: returns an empty string, or the reason of a failure.
        workers: CPUs of a local cluster.

    Raises:
        InputError: Ray is not installed, or there is no cluster.
    """
    with cluster(workers):
        import ray
        from ray.exceptions import RayError, RayTaskError

        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # scripts are on the path of this process only
        task, folder = ray.remote(num_cpus=1, max_retries=0)(_there), Path.cwd()
        paths = [*sys.path, str(Path(__file__).parent)]

        def called(argument: Given) -> str:
            try:
                return ray.get(task.remote(ray.cloudpickle.dumps((work, argument)), paths, folder))
            except RayTaskError as error:
                return str(error).strip().splitlines()[-1]
            except RayError as error:
                return f"{type(error).__name__}: the Ray worker was lost; run the same command again"

        yield called


def _there(call: bytes, paths: list[str], folder: Path) -> str:
    sys.path.extend(path for path in paths if path not in sys.path)
    os.chdir(folder)
    work, argument = pickle.loads(call)
    return work(argument)
