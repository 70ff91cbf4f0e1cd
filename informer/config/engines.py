"""Where independent tasks run: the keys `engine` and `workers`."""

from enum import Enum


class EngineName(Enum):
    """local: in this process. ray: by actors of the Ray cluster at RAY_ADDRESS, or of a local cluster."""

    local = "local"
    ray = "ray"


def workers_problems(engine: EngineName, workers: int | None) -> list[str]:
    """One sentence for each value out of range."""
    if workers is None:
        return []
    problems = [f"workers: expected at least 1, found {workers}"] if workers < 1 else []
    if engine is EngineName.local:
        problems.append(f"workers: only used with engine=ray, found workers={workers}")
    return problems
