"""Partitioned folders, as Hive, Spark and pyarrow write them: `store=1/part-0.parquet` is one table with a column
`store`.

The files are read in the natural order of their paths: part-2 before part-10.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from informer.config.repairs import Limits
from informer.data.read.limits import check_size, open_regular
from informer.errors import InputError, listed, reason_of

if TYPE_CHECKING:
    import pandas as pd

SUFFIX = ".parquet"

_KEY = re.compile(r"([^=]+)=[^=]*")


def is_key(name: str) -> bool:
    """Whether a folder of this name is a partition: `store=1`."""
    return _KEY.fullmatch(name) is not None and name[0] not in "._"


def is_partitioned(folder: Path) -> bool:
    """Whether a path is a partitioned table: a folder that contains only partitions, except hidden files."""
    if not folder.is_dir():
        return False
    inside = [path for path in folder.iterdir() if path.name[0] not in "._"]
    return bool(inside) and all(path.is_dir() and is_key(path.name) for path in inside)


def files_of(path: Path) -> list[Path]:
    """The files of a partitioned folder in reading order; for other paths, the path itself."""
    return partition_files(path) if is_partitioned(path) else [path]


def partition_files(folder: Path) -> list[Path]:
    """The parquet files of a partitioned folder, in reading order."""
    files = [path for path in folder.rglob(f"*{SUFFIX}") if not _is_hidden(path.relative_to(folder))]
    return sorted(files, key=lambda path: [_place(name) for name in path.relative_to(folder).parts])


def _is_hidden(path: Path) -> bool:
    return any(name[0] in "._" for name in path.parts)


def _place(name: str) -> list[tuple[bool, int, str]]:
    """Sort key for the natural order of names."""
    words = re.split(r"([0-9]+)", name)
    return [(word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words]


def partitioned_frame(folder: Path, limits: Limits) -> "pd.DataFrame":
    """The rows of all files, with the partition keys as text columns, spelled as in the folder names.

    Raises:
        InputError: no files, files that are not regular, more than `limits`, or different keys or columns.
    """
    import pyarrow
    import pyarrow.parquet
    from pyarrow import dataset

    from informer.data.read.cells import check_lengths  # imports pandas, which finding files does not need

    files = partition_files(folder)
    if not files:
        raise InputError(f"{folder}: expected files ending in {SUFFIX} in its partitions, found none")
    for path in files:
        with open_regular(path):  # raises an error for pipes and devices
            pass
    keys = _keys(folder, files)
    names = dataset.partitioning(pyarrow.schema([(key, pyarrow.string()) for key in keys]), flavor="hive")
    try:
        metadata = [pyarrow.parquet.read_metadata(path) for path in files]
        inside = pyarrow.unify_schemas(
            [file.schema.to_arrow_schema() for file in metadata], promote_options="permissive"
        )
        if repeated := [key for key in keys if key in inside.names]:
            raise InputError(
                f"{folder}: {listed(repeated)}: a column of its files and a key of its partitions; rename one"
            )
        n_rows = sum(file.num_rows for file in metadata)
        check_size(folder, n_rows * (len(inside) + len(keys)) * 8, limits)
        partitioned = dataset.dataset(
            [str(path) for path in files],
            schema=pyarrow.unify_schemas([inside, names.schema]),
            format="parquet",
            partitioning=names,
            partition_base_dir=str(folder),
        )
        frame: pd.DataFrame = partitioned.to_table().to_pandas()
        check_lengths(folder, frame, limits)
    except pyarrow.ArrowException as error:
        raise InputError(f"{folder}: cannot be read as one partitioned table ({reason_of(error)})") from error
    return frame


def _keys(folder: Path, files: Sequence[Path]) -> list[str]:
    """The partition keys, which must be the same for all files."""
    paths = {tuple(name.partition("=")[0] for name in path.relative_to(folder).parts[:-1]): path for path in files}
    first, *others = paths
    if others:
        raise InputError(
            f"{folder}: expected the same keys in all partitions, found {listed(first)} in {paths[first].parent}, "
            f"{listed(others[0])} in {paths[others[0]].parent}"
        )
    return list(first)
