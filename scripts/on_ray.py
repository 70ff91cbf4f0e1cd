"""Work of a script on a Ray cluster: a function is called there as here, each call as a task of its own.

Every machine of the cluster must see the same folders at the same paths. A call whose worker dies is not repeated, for
what it started may live on: it fails, and the script is run again for what is left.
"""

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from informer.inference.jobs.ray_engine import cluster

Given = TypeVar("Given")


@contextmanager
def on_ray(work: Callable[[Given], str], workers: int) -> Iterator[Callable[[Given], str]]:
    """The same function, called on the cluster that RAY_ADDRESS names, otherwise on one of this machine.

    Args:
        work: returns an empty text, or why it failed.
        workers: processors of the cluster, where it is one of this machine.

    Raises:
        InputError: Ray is not installed, or there is no such cluster.
    """
    with cluster(workers):
        import ray
        from ray.exceptions import RayError, RayTaskError

        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # scripts are on the path of this process only
        task, folder = ray.remote(num_cpus=1, max_retries=0)(_there), Path.cwd()
        paths = [*sys.path, str(Path(__file__).parent)]

        def called(given: Given) -> str:
            try:
                return ray.get(task.remote(ray.cloudpickle.dumps((work, given)), paths, folder))
            except RayTaskError as error:
                return str(error).strip().splitlines()[-1]
            except RayError as error:
                return f"{type(error).__name__}: the Ray worker was lost; run the same command again"

        yield called


def _there(call: bytes, paths: list[str], folder: Path) -> str:
    sys.path.extend(path for path in paths if path not in sys.path)
    os.chdir(folder)
    work, given = pickle.loads(call)
    return work(given)
