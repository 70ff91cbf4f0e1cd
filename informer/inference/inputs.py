"""Files to forecast, and what their forecasts are called."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from glob import has_magic
from itertools import takewhile
from pathlib import Path

from informer.data.download import list_files
from informer.data.panel import series_names
from informer.data.table import listed
from informer.errors import InputError


@dataclass(frozen=True, slots=True)
class Source:
    """A file, and the name of its series: in errors, for its scaler, and of its forecast below the output folder."""

    path: Path
    name: str


def name_sources(paths: Sequence[Path]) -> list[Source]:
    """Names as in training (`series_names`); with the ending of the file where two would still be called the same."""
    names = series_names(paths)
    whole = [str(Path(name).with_name(path.name)) for name, path in zip(names, paths, strict=True)]
    times = Counter(names)
    mixed = [name if times[name] == 1 else long for name, long in zip(names, whole, strict=True)]
    # a.csv beside a.csv.gz and a.csv.csv: what the last is called without its ending, the first is with it
    return [Source(*pair) for pair in zip(paths, mixed if len(set(mixed)) == len(mixed) else whole, strict=True)]


def match_futures(wanted: str, sources: Sequence[Source]) -> Path | dict[str, Path]:
    """The one file of future covariates for all, or that of each file by its name.

    Args:
        wanted: a file, or the folder or pattern of many, which are named as the files to forecast are.
        sources: files to forecast.

    Raises:
        InputError: there are none, or none for some.
    """
    found = list_files("future", wanted)
    if found is None:
        return Path(wanted).expanduser()
    own = {future.name: future.path for future in name_sources(found)}
    absent = [source.name for source in sources if source.name not in own]
    if absent:
        raise InputError(
            f"future={wanted}: expected a file for each input, of the same name; found none for {listed(absent)}"
        )
    return {source.name: own[source.name] for source in sources}


def check_output(wanted: str, paths: Sequence[Path], output: Path) -> None:
    """Forecasts lie apart from the files, or another run over the same pattern would take them for input.

    Args:
        wanted: the folder or pattern.
        paths: what it found.
        output: folder of the forecasts.

    Raises:
        InputError: they would not.
    """
    taken = output.resolve() in {folder.resolve() for folder in {path.parent for path in paths}}
    if taken or _would_find(wanted, output.resolve()):
        raise InputError(f"output={output}: expected another folder than that of the input files; choose one")


def _would_find(pattern: str, folder: Path) -> bool:
    """A pattern, if it is one, finds files of that folder, whatever they are called."""
    parts = Path(pattern).expanduser().parts
    fixed = list(takewhile(lambda part: not has_magic(part), parts))
    free, top = parts[len(fixed) :], Path(*fixed).resolve()
    if not free or not folder.is_relative_to(top):
        return False
    below = folder.relative_to(top).parts
    return "**" in free or (len(below) == len(free) - 1 and all(map(fnmatch, below, free)))
