"""`python search_on_ray.py ARGUMENT...`: `informer.train` with these arguments, on Ray; a worker is killed in its
second trial.

A program of its own, because Ray ends the process that connects to it when its own processes die.
"""

import ray

from informer.commands import cli
from informer.search.trials import OnRay

begin = OnRay.begin


def losing(engine: OnRay, *arguments, **settings):
    """`OnRay.begin`, after which the worker of the third trial dies."""
    wait = begin(engine, *arguments, **settings)
    if engine._begun == 3:
        ray.kill(engine._actors[0], no_restart=False)
        print("killed a worker")
    return wait


if __name__ == "__main__":
    OnRay.begin = losing
    cli.run("train")
