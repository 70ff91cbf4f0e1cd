"""Facts about where the program runs: its resource files, device, seeds, versions."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """A file or folder that ships with the project (`conf`, `data/sample.csv`).

    In a wheel it lies inside the package; in a checkout or an editable install beside it.
    """
    inside = PACKAGE / name
    return inside if inside.exists() else PACKAGE.parent / name
