"""From files or a table in memory to series of the input columns, with the roles of their columns."""

from dataclasses import dataclass, replace
from pathlib import Path

from informer.config.dataset import DatasetConfig
from informer.config.lengths import WindowSizes
from informer.data.attributes import Attributes, read_attributes
from informer.data.cache import Cache, dataset_cache
from informer.data.categories import check_static
from informer.data.columns import Columns, Roles
from informer.data.large import mapped_panel
from informer.data.panel import read_panel, table_panel
from informer.data.provenance import Provenance, panel_sha256, provenance_of
from informer.data.read.categories import CategoryReader, Labels
from informer.data.read.download import find_files
from informer.data.read.memory import release_free
from informer.data.read.source import Series
from informer.data.read.table import Table
from informer.data.store import with_columns
from informer.errors import InputError, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Series of a dataset after reading.

    Args:
        panel: series of the input columns, in data units.
        columns: names of the columns by role.
        labels: by categorical column, the categories in the file, in the order of their codes in `panel`.
        cache: cache files for arrays too large for memory; None: keep them in memory.
        provenance: files and checksum.
        attributes: of the series, if they came from a table of their own.
    """

    panel: list[Series]
    columns: Columns
    labels: Labels
    cache: Cache | None
    provenance: Provenance
    attributes: Attributes | None = None


def read_source(
    dataset: DatasetConfig,
    *,
    sizes: WindowSizes,
    roles: Roles,
    data_dir: Path,
    attributes: Attributes | None = None,
) -> Source:
    """Read a dataset.

    Args:
        sizes: sizes of the shortest windows that will be used.
        attributes: known attributes of the series; a file that `dataset` names is read too, and has priority.

    Raises:
        InputError: problems in the files.
    """
    dataset, roles, attributes = _attributed(dataset, roles, attributes)
    paths = find_files(dataset, data_dir)
    provenance = provenance_of(paths, dataset)
    cache = dataset_cache(dataset, data_dir, paths, provenance.sha256, attributes) if dataset.memmap else None
    categories = CategoryReader(roles.covariates)
    panel = (
        mapped_panel(paths, dataset, cache, attributes)
        if cache
        else read_panel(paths, dataset, sizes, categories, attributes)
    )
    if cache and (missing := [name for name in roles.covariates if name not in panel[0].columns]):
        raise InputError(
            f"dataset.memmap: expected covariates of numbers, found no such column {listed(missing)}; leave it out"
        )
    return _source(panel, roles, categories.labels, provenance, cache, attributes)


def _attributed(
    dataset: DatasetConfig, roles: Roles, recorded: Attributes | None
) -> tuple[DatasetConfig, Roles, Attributes | None]:
    """The configuration with the columns of the attributes, the roles of all columns, and the attributes."""
    roles, from_file = replace(roles, target=roles.target or dataset.target), read_attributes(dataset)
    attributes = recorded if from_file is None else from_file.with_recorded(recorded)
    if attributes is None:
        return dataset, roles, None
    dataset = attributes.named_in(dataset)
    return dataset, replace(roles, static_covariates=dataset.static_covariates), attributes


def table_source(
    table: Table,
    dataset: DatasetConfig,
    *,
    sizes: WindowSizes,
    roles: Roles,
    provenance: Provenance | None,
    attributes: Attributes | None = None,
) -> Source:
    """Like `read_source`, for a table in memory.

    Args:
        provenance: a file with the same content; None if there is none.
        attributes: see `read_source`.

    Raises:
        InputError: problems in the table.
    """
    if dataset.memmap:
        raise InputError("dataset.memmap: expected a file, found a table in memory; leave it out")
    dataset, roles, attributes = _attributed(dataset, roles, attributes)
    categories = CategoryReader(roles.covariates)
    panel = table_panel(table, dataset, sizes, categories, attributes)
    provenance = provenance or Provenance(Path(table.name), panel_sha256(panel, categories.labels))
    return _source(panel, roles, categories.labels, provenance, None, attributes)


def _source(
    panel: list[Series],
    roles: Roles,
    labels: Labels,
    provenance: Provenance,
    cache: Cache | None,
    attributes: Attributes | None,
) -> Source:
    available = panel[0].columns
    release_free(sum(series.values.nbytes for series in panel))
    columns = roles.with_categories([name for name in labels if name in available]).choose(
        available, name=panel[0].name
    )
    check_static(panel, columns.static_covariates, labels)
    return Source(
        panel=with_columns(panel, columns.inputs, cache),
        columns=columns,
        labels={name: labels[name] for name in columns.inputs if name in labels},
        cache=cache,
        provenance=provenance,
        attributes=attributes,
    )
