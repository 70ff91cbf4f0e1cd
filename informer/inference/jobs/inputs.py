"""Input files and the names of their forecasts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from glob import has_magic
from itertools import takewhile
from pathlib import Path

from informer.data.panel import series_names
from informer.data.read.download import list_files
from informer.data.read.partitions import is_partitioned
from informer.errors import InputError, listed
from informer.files import expanded


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file and its name, which is used in errors, to select its scaler, and in the paths of its forecasts."""

    path: Path
    name: str


def name_sources(paths: Sequence[Path]) -> list[InputFile]:
    """Names as in training (`series_names`), with the file ending if two would be equal otherwise."""
    names = series_names(paths)
    full_names = [str(Path(name).with_name(path.name)) for name, path in zip(names, paths, strict=True)]
    times = Counter(names)
    mixed = [name if times[name] == 1 else long for name, long in zip(names, full_names, strict=True)]
    # a.csv, a.csv.gz and a.csv.csv: the last without its ending equals the first with its ending
    return [
        InputFile(*pair) for pair in zip(paths, mixed if len(set(mixed)) == len(mixed) else full_names, strict=True)
    ]


def match_futures(location: str, sources: Sequence[InputFile]) -> Path | dict[str, Path]:
    """One file of future covariates for all, or one per input file, by name.

    Args:
        location: a file, or a folder or pattern of files named like the input files.
        sources: input files.

    Raises:
        InputError: no such file, or an input file without one.
    """
    futures = list_files("future", location)
    if futures is None:
        return expanded(location)
    by_name = {future.name: future.path for future in name_sources(futures)}
    absent = [source.name for source in sources if source.name not in by_name]
    if absent:
        raise InputError(
            f"future={location}: expected a file for each input, with the same name; found none for {listed(absent)}"
        )
    return {source.name: by_name[source.name] for source in sources}


def check_output(pattern: str, paths: Sequence[Path], output: Path) -> None:
    """Check that the output folder is outside the input pattern, so that a later run does not read forecasts as input.

    Args:
        pattern: the folder or pattern.
        paths: the files it matches.
        output: folder of the forecasts.

    Raises:
        InputError: the output folder is one of the input files' folders.
    """
    taken = output.resolve() in {folder.resolve() for folder in {path.parent for path in paths}}
    if taken or _would_find(pattern, output.resolve()):
        raise InputError(f"output={output}: expected another folder than that of the input files; choose one")


def check_outside(path: Path, output: Path) -> None:
    """Raise an InputError if the output folder is within a partitioned input folder, whose files are all inputs."""
    if is_partitioned(path) and output.resolve().is_relative_to(path.resolve()):
        raise InputError(f"output={output}: expected a folder outside the input {path}; choose one")


def _would_find(pattern: str, folder: Path) -> bool:
    """Whether a pattern matches files in this folder."""
    components = expanded(pattern).parts
    fixed = list(takewhile(lambda component: not has_magic(component), components))
    free, top = components[len(fixed) :], Path(*fixed).resolve()
    if not free or not folder.is_relative_to(top):
        return False
    below = folder.relative_to(top).parts
    return "**" in free or (len(below) == len(free) - 1 and all(map(fnmatch, below, free)))
