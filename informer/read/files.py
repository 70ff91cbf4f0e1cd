"""Locate the files of a dataset; a missing file is downloaded if the dataset has an address.

Partitioned folders, as Hive, Spark and pyarrow write them: `store=1/part-0.parquet` is one table with a column
`store`.

The files are read in the natural order of their paths: part-2 before part-10.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from informer.base.errors import FileError, InputError, listed, reason_of
from informer.base.files import expanded, missing_file, reading
from informer.base.runtime import resource
from informer.config.data import DatasetConfig, is_plain_name
from informer.read.limits import CELL, LIMITS, check_ratio, check_table, open_regular
from informer.read.remote import fetch, is_remote, local_path, without_query

if TYPE_CHECKING:
    import pandas as pd
    from _typeshed import DataclassInstance

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
    found = {path: path.relative_to(folder).parts for path in folder.rglob(f"*{SUFFIX}")}
    files = [path for path, names in found.items() if not any(name[0] in "._" for name in names)]
    return sorted(files, key=lambda path: [_place(name) for name in found[path]])


def _place(name: str) -> list[tuple[bool, int, str]]:
    """Sort key for the natural order of names."""
    words = re.split(r"([0-9]+)", name)
    return [(word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words]


def partitioned_frame(folder: Path, limits: DatasetConfig) -> "pd.DataFrame":
    """The rows of all files, with the partition keys as text columns, spelled as in the folder names.

    Raises:
        InputError: no files, files that are not regular, more than `limits`, or different keys or columns.
    """
    import pyarrow
    import pyarrow.parquet
    from pyarrow import dataset

    from informer.read.cells import check_lengths  # imports pandas, which finding files does not need

    files = partition_files(folder)
    if not files:
        raise FileError(f"{folder}: expected files ending in {SUFFIX} in its partitions, found none")
    for path in files:
        with open_regular(path):  # raises an error for pipes and devices
            pass
    paths = {tuple(name.partition("=")[0] for name in path.relative_to(folder).parts[:-1]): path for path in files}
    keys, *others = paths
    if others:
        raise FileError(
            f"{folder}: expected the same keys in all partitions, found {listed(keys)} in {paths[keys].parent}, "
            f"{listed(others[0])} in {paths[others[0]].parent}"
        )
    names = dataset.partitioning(pyarrow.schema([(key, pyarrow.string()) for key in keys]), flavor="hive")
    try:
        metadata = [pyarrow.parquet.read_metadata(path) for path in files]
        inside = pyarrow.unify_schemas(
            [file.schema.to_arrow_schema() for file in metadata], promote_options="permissive"
        )
        if repeated := [key for key in keys if key in inside.names]:
            raise FileError(
                f"{folder}: {listed(repeated)}: a column of its files and a key of its partitions; rename one"
            )
        n_rows, n_columns = sum(file.num_rows for file in metadata), len(inside) + len(keys)
        check_table(folder, n_rows, n_columns, limits)
        check_ratio(folder, n_rows * n_columns * CELL, sum(path.stat().st_size for path in files), limits)
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
        raise FileError(f"{folder}: cannot be read as one partitioned table ({reason_of(error)})") from error
    return frame


Settings = TypeVar("Settings", bound="DataclassInstance")


def copied_here(settings: Settings, keys: Sequence[str], limits: DatasetConfig = LIMITS) -> Settings:
    """A configuration with the local paths of copies in place of the addresses under these keys, see `local_path`."""
    given = ((key, getattr(settings, key)) for key in keys)
    return replace(settings, **{key: local_path(key, value, limits) for key, value in given if value is not None})


def without_signature(dataset: DatasetConfig) -> DatasetConfig:
    """The configuration without the query of its address, for saving; what is there is copied first."""
    if dataset.path is None:
        return dataset
    dataset_path(dataset)
    return replace(dataset, path=without_query(dataset.path))


SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".xlsx")
"""File name endings that are searched for in a folder."""


def find_files(config: DatasetConfig, data_dir: Path) -> list[Path]:
    """The dataset's files: the one of `find_file`, or those of the folder or pattern `path`, in alphabetical order.

    Raises:
        InputError: there is none.
    """
    if config.path is None:
        return [find_file(config, data_dir)]
    path = dataset_path(config)
    many = list_files("dataset.path", path, config.exclude_files)
    return [expanded(path)] if many is None else many


def dataset_path(config: DatasetConfig) -> str:
    """Local path of `dataset.path`; remote files are copied first. Errors as in `local_path`."""
    return local_path("dataset.path", str(config.path), config)


def list_files(setting: str, location: str, excluded: Sequence[str] = ()) -> list[Path] | None:
    """The sorted tables of a folder, or files of a pattern such as in/**/*.csv; None for a single file or a folder that
    is one partitioned table.

    Args:
        setting: the key, for errors.
        location: its value.
        excluded: names of files to leave out.

    Raises:
        InputError: there are none, or an address.
    """
    if is_remote(location):
        raise FileError(
            f"{setting}={without_query(location)}: expected a local path; train, eval and report read "
            "addresses as dataset.path, other commands as input"
        )
    path = expanded(location)
    if is_partitioned(path):
        return None
    if path.is_dir():
        files = [file for file in path.iterdir() if file.name.lower().endswith(SUFFIXES) and file.name[0] != "."]
        expected = f"files ending in {', '.join(SUFFIXES)}"
    elif has_magic(str(path)) and not path.exists():
        names = set(glob(str(path), recursive=True))  # **/** finds a file more than once
        files = [Path(name) for name in names if not Path(name).is_dir()]  # reading reports other non-files
        expected = "files that match the pattern"
    else:
        return None
    files = [file for file in files if file.name not in excluded]
    if not files:
        raise FileError(f"{setting}={path}: expected {expected}, found none")
    return sorted(files)


def check_input(location: str) -> None:
    """Check that `input=` exists, before heavy imports.

    Raises:
        InputError: neither a file nor a folder or pattern of files.
    """
    if list_files("input", location) is None:
        check_file(expanded(location))


def check_dataset(config: DatasetConfig, data_dir: Path) -> None:
    """Check that a dataset exists or can be downloaded, before heavy imports; downloads nothing.

    Raises:
        InputError: see `find_files`.
    """
    can_fetch = config.path is None and config.file is not None and config.url is not None
    if not can_fetch:
        for path in find_files(config, data_dir):
            check_file(path)


def check_file(path: Path) -> None:
    """Raise an InputError if the file does not exist."""
    if not path.exists():
        raise missing_file(path)


def find_file(config: DatasetConfig, data_dir: Path) -> Path:
    """The dataset's own file, downloaded into `data_dir` if needed.

    Raises:
        InputError: it is missing and cannot be downloaded; says what to download and where to put it.
    """
    if config.file is None:
        raise FileError(
            f"dataset.path: expected a CSV file, found none: dataset={config.name} dataset.path=my.csv; "
            "to forecast a file in one command: informer forecast my.csv"
        )
    if not is_plain_name(config.file):
        raise InputError(f"dataset.file: expected the name of a file in data_dir, found {config.file!r}")
    if config.packaged:
        return resource(f"data/{config.file}")
    path = data_dir / config.file
    if path.exists():
        return path
    if config.url is None:
        hint = config.hint or f"put it there, or set dataset.path or data_dir (now {data_dir})"
        raise FileError(f"{config.name}: {path} does not exist; {hint}")
    if config.sha256 is None:
        raise FileError(
            f"{config.name}: {path} does not exist, and dataset.url={config.url} needs dataset.sha256, "
            "the file's checksum; set it, or download the file and put it there"
        )
    fetch(config.url, path, sha256=config.sha256)
    return path


def files_sha256(paths: Sequence[Path]) -> str:
    """Hex digest of the content of a file, or of the names and contents of several.

    Raises:
        InputError: one cannot be read.
    """
    if len(paths) == 1:
        return file_sha256(paths[0])
    digests = "".join(f"{path.name} {file_sha256(path)}\n" for path in paths)
    return hashlib.sha256(digests.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """Hex digest of a file, or of the names and contents of those of a partitioned folder.

    Raises:
        InputError: it cannot be read.
    """
    if is_partitioned(path):
        lines = (f"{file.relative_to(path)} {file_sha256(file)}\n" for file in partition_files(path))
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    with reading(path), open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
