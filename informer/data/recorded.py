"""The data of an earlier run, found again without trusting what the run says about it.

A checkpoint or a run directory may come from anyone, and names files: those of its dataset, and a download URL. None of
that is trusted. A file that it names is read only if its checksum is the one recorded by the run, so that whoever wrote
the record already had its content. A dataset that ships with this package is taken from the package's own
configuration. Anything else must be named by the user.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from glob import has_magic
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

from informer.config.conversion import node_of
from informer.config.dataset import PLACES, DatasetConfig, is_plain_name
from informer.config.plain import read_saved_yaml, unescaped
from informer.data.read.download import files_sha256, list_files
from informer.data.read.partitions import files_of
from informer.data.read.remote import is_remote
from informer.errors import InputError
from informer.files import expanded, writing
from informer.runtime import resource

NETWORK = ("//", "\\\\")
"""Prefixes of paths that open a connection to another machine on some systems."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Location of the data as recorded by a run.

    Args:
        name: name of the dataset.
        path, file, data_dir: as in the configuration of the run.
        absolute: the same from any working directory.
        sha256: digest of the data; None if the run has not recorded it.
    """

    name: str | None
    path: str | None
    file: str | None
    data_dir: str | None
    sha256: str | None
    absolute: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any], data: Mapping[str, Any]) -> "Recorded":
        """From the saved configuration and data facts; values that are not text count as missing."""
        node = config.get("dataset")
        own: Mapping[str, Any] = node if isinstance(node, Mapping) else {}
        said = {key: own.get(key) for key in ("name", "path", "file")} | {"data_dir": config.get("data_dir")}
        texts = {key: unescaped(value) if isinstance(value, str) else None for key, value in said.items()}
        facts = {key: value if isinstance(value := data.get(key), str) else None for key in ("sha256", "absolute")}
        return cls(**texts, **facts)

    @property
    def where(self) -> str | None:
        """The file, folder or pattern, relative to the working directory."""
        if self.path is not None or self.file is None or not is_plain_name(self.file):
            return self.path
        return str(Path(self.data_dir or "", self.file))

    @property
    def absolute_path(self) -> str | None:
        """`where` from any working directory; None unless both are recorded and one is the end of the other."""
        if not self.where or not self.absolute:
            return None
        ending, whole = Path(self.where).parts, Path(self.absolute).parts
        return self.absolute if whole[-len(ending) :] == ending else None

    def not_found(self, *, can_differ: bool) -> InputError:
        """The error for missing data.

        Args:
            can_differ: whether other data, given by the user, may be used instead.
        """
        where = self.where or "dataset.path"
        shown = where if where.isprintable() else repr(where)  # the record may contain any character
        if self.sha256 is None:
            return InputError(f"{shown}: the run has no checksum of its data; set dataset.path=FILE")
        if not where.startswith(NETWORK) and expanded(where).exists():
            advice = f"to read it as it is now, set dataset.path={shown}" if can_differ else "start a new run"
            return InputError(f"{shown} has changed since training, or is not a regular file; {advice}")
        return InputError(f"{shown}: training data not found; set dataset.path=FILE")

    @property
    def shipped(self) -> DatasetConfig | None:
        """The dataset of this package with this data; None for other data."""
        own = _shipped().get(self.name or "")
        if own is None or own.file is None:
            return None
        is_it = (self.path is None and self.file == own.file) or (own.sha256 is not None and own.sha256 == self.sha256)
        return own if is_it else None

    def is_still_at(self, wanted: str, excluded: Sequence[str] = ()) -> bool:
        """Whether regular files with the recorded checksum are there."""
        path = expanded(wanted)
        if self.sha256 is None or is_remote(wanted) or wanted.startswith(NETWORK) or has_magic(str(path.parent)):
            return False
        try:
            paths = list_files("dataset.path", wanted, excluded) or [path]
            return (
                all(_has_content(file) for one in paths for file in files_of(one))
                and files_sha256(paths) == self.sha256
            )
        except (InputError, OSError, ValueError):  # no such file, one that may not be read, a NUL in its name
            return False


def find_again(
    dataset: DatasetConfig, recorded: Recorded, *, named: str | None, default: str, can_differ: bool
) -> tuple[DatasetConfig, str]:
    """Find the data of a run; return `dataset` with its location and the folder it is relative to.

    Args:
        dataset: dataset section of the run, without locations; a `path` in it was given by the user and is kept.
        recorded: what the run recorded.
        named: the data folder given by the user, if any.
        default: the data folder otherwise.
        can_differ: whether other data, given by the user, may be used instead.

    Raises:
        InputError: the data is not there, or has changed since; the user must say where it is.
    """
    shipped = recorded.shipped
    if dataset.path is not None or (shipped is not None and named is not None):
        return _placed(dataset, None if dataset.path else shipped), named or default
    if recorded.path is not None and recorded.is_still_at(recorded.path, dataset.exclude_files):
        return replace(dataset, path=recorded.path), named or default
    here = recorded if named is None else replace(recorded, data_dir=named)
    if here.path is None and here.where is not None and here.is_still_at(here.where):
        return replace(_placed(dataset, shipped), file=here.file), here.data_dir or default
    far = recorded.absolute_path
    if far is not None and not recorded.is_still_at(far, dataset.exclude_files):
        far = None
    if shipped is not None:
        if far is not None and not shipped.packaged and Path(far).name == shipped.file:
            return _placed(dataset, shipped), str(Path(far).parent)
        return _placed(dataset, shipped), default
    if far is not None:
        return replace(dataset, path=far), named or default
    raise here.not_found(can_differ=can_differ)


@contextmanager
def own_cache(dataset: DatasetConfig, folder: Path) -> Iterator[DatasetConfig]:
    """`dataset` with the arrays of `memmap`, if any, in a temporary folder below `folder`.

    `memmap` may come from a checkpoint, which must not decide where files are written; a `cache_dir` is the user's.
    """
    if not dataset.memmap or dataset.cache_dir is not None:
        yield dataset
        return
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        scratch = TemporaryDirectory(dir=folder, prefix=".cache-", ignore_cleanup_errors=True)
    with scratch as place:
        yield replace(dataset, cache_dir=place)


def _placed(dataset: DatasetConfig, shipped: DatasetConfig | None) -> DatasetConfig:
    """`dataset` at the location of the package's own one."""
    places = {} if shipped is None else {name: getattr(shipped, name) for name in PLACES}
    return replace(dataset, **places | {"cache_dir": dataset.cache_dir, "attributes": dataset.attributes})


def _has_content(path: Path) -> bool:
    """Exclude pipes and devices, which could block, and system files generated on reading."""
    return path.is_file() and path.stat().st_size > 0


@cache
def _shipped() -> dict[str, DatasetConfig]:
    """`conf/dataset`, by name."""
    datasets = {}
    for path in sorted(resource("conf/dataset").glob("*.yaml")):
        dataset = node_of(DatasetConfig, read_saved_yaml(path))
        datasets[dataset.name] = dataset
    return datasets
