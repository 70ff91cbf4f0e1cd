"""Locate the data of an earlier run without trusting its records.

A checkpoint or run directory may come from anyone, and names files and a download URL, which are not trusted. A named
file is read only if its checksum equals the recorded one, so that whoever wrote the record already had its content. A
dataset that ships with this package is read from the package's own configuration. Any other data must be named by the
user.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from glob import has_magic
from pathlib import Path
from typing import Any, final

from informer.base.errors import FileError, InputError
from informer.base.files import expanded
from informer.base.runtime import resource
from informer.config.conversion import node_of, read_saved_yaml
from informer.config.data import PUBLISHED, DatasetConfig, is_plain_name
from informer.read.files import files_of, files_sha256, list_files
from informer.read.remote import is_remote

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
        dataset: Mapping[str, Any] = node if isinstance(node, Mapping) else {}
        entries = {key: dataset.get(key) for key in ("name", "path", "file")} | {"data_dir": config.get("data_dir")}
        texts = {key: value if isinstance(value, str) else None for key, value in entries.items()}
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
        ending, absolute = Path(self.where).parts, Path(self.absolute).parts
        return self.absolute if absolute[-len(ending) :] == ending else None

    def not_found(self, *, can_differ: bool, setting: str = "dataset.path") -> InputError:
        """The error for missing data.

        Args:
            can_differ: whether other data, given by the user, may be used instead.
            setting: key with which the user names the data.
        """
        where = self.where or "dataset.path"
        printable = where if where.isprintable() else repr(where)  # the record may contain any character
        if self.sha256 is None:
            return FileError(f"{printable}: the run has no checksum of its data; set {setting}=FILE")
        if not where.startswith(NETWORK) and expanded(where).exists():
            advice = f"to read it as it is now, set {setting}={printable}" if can_differ else "start a new run"
            return FileError(f"{printable} has changed since training, or is not a regular file; {advice}")
        return FileError(f"{printable}: training data not found; set {setting}=FILE")

    @property
    def shipped(self) -> DatasetConfig | None:
        """The dataset of this package with this data; None for other data."""
        dataset = _shipped().get(self.name or "")
        if dataset is None or dataset.file is None:
            return None
        is_same_file = self.path is None and self.file == dataset.file
        is_same_content = dataset.sha256 is not None and dataset.sha256 == self.sha256
        return dataset if is_same_file or is_same_content else None

    def is_still_at(self, location: str, excluded: Sequence[str] = ()) -> bool:
        """Whether regular files with the recorded checksum are there."""
        path = expanded(location)
        if self.sha256 is None or is_remote(location) or location.startswith(NETWORK) or has_magic(str(path.parent)):
            return False
        try:
            paths = list_files("dataset.path", location, excluded) or [path]
            return (
                # no pipes and devices, which could block, and no system files generated on reading
                all(file.is_file() and file.stat().st_size > 0 for entry in paths for file in files_of(entry))
                and files_sha256(paths) == self.sha256
            )
        except (InputError, OSError, ValueError):  # no such file, one that may not be read, a NUL in its name
            return False


def find_again(
    dataset: DatasetConfig,
    recorded: Recorded,
    *,
    named: str | None,
    default: str,
    can_differ: bool,
    setting: str = "dataset.path",
) -> tuple[DatasetConfig, str]:
    """Find the data of a run; return `dataset` with its location and the folder it is relative to.

    Args:
        dataset: dataset section of the run, without locations; a `path` in it was given by the user and is kept.
        recorded: what the run recorded.
        named: the data folder given by the user, if any.
        default: the data folder otherwise.
        can_differ, setting: see `Recorded.not_found`.

    Raises:
        InputError: the data is not there, or has changed since; the user must say where it is.
    """
    shipped = recorded.shipped
    if dataset.path is not None or (shipped is not None and named is not None):
        return _placed(dataset, None if dataset.path else shipped), named or default
    if recorded.path is not None and recorded.is_still_at(recorded.path, dataset.exclude_files):
        return replace(dataset, path=recorded.path), named or default
    candidate = recorded if named is None else replace(recorded, data_dir=named)
    if candidate.path is None and candidate.where is not None and candidate.is_still_at(candidate.where):
        return replace(_placed(dataset, shipped), file=candidate.file), candidate.data_dir or default
    far = recorded.absolute_path
    if far is not None and not recorded.is_still_at(far, dataset.exclude_files):
        far = None
    if shipped is not None:
        if far is not None and not shipped.packaged and Path(far).name == shipped.file:
            return _placed(dataset, shipped), str(Path(far).parent)
        return _placed(dataset, shipped), default
    if far is not None:
        return replace(dataset, path=far), named or default
    raise candidate.not_found(can_differ=can_differ, setting=setting)


def _placed(dataset: DatasetConfig, shipped: DatasetConfig | None) -> DatasetConfig:
    """`dataset` at the location of the package's own one."""
    return replace(dataset, **{} if shipped is None else {name: getattr(shipped, name) for name in PUBLISHED})


@cache
def _shipped() -> dict[str, DatasetConfig]:
    """`conf/dataset`, by name."""
    datasets = {}
    for path in sorted(resource("conf/dataset").glob("*.yaml")):
        dataset = node_of(DatasetConfig, read_saved_yaml(path))
        datasets[dataset.name] = dataset
    return datasets
