"""Windows of the training, validation and test part over one store."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int64

from informer.config.dataset import DatasetConfig
from informer.config.lengths import WindowSizes
from informer.data.columns import Columns
from informer.data.gaps import observed_rows, well_observed
from informer.data.read.source import Series
from informer.data.windows import Store, Windows
from informer.errors import InputError


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class WindowCutter:
    """Cuts the rows of all series into windows.

    Args:
        store: rows of all series.
        columns: roles of the columns.
        sizes: sizes of a window.
        dataset: gives the name for errors, and how much of a window must be observed.
        observed: rows of the store in which some target is observed; None: nothing is missing.
    """

    store: Store
    columns: Columns
    sizes: WindowSizes
    dataset: DatasetConfig
    observed: Bool[np.ndarray, "rows"] | None

    @classmethod
    def of(
        cls, panel: Sequence[Series], store: Store, columns: Columns, sizes: WindowSizes, dataset: DatasetConfig
    ) -> "WindowCutter":
        """A cutter for the store of these series."""
        observed = observed_rows(panel, columns.positions(columns.targets)) if dataset.keeps_gaps else None
        return cls(store=store, columns=columns, sizes=sizes, dataset=dataset, observed=observed)

    def __call__(self, name: str, rows: Sequence[range]) -> Windows:
        """Windows whose targets lie in these rows of their series and of which enough is observed.

        Raises:
            InputError: there is none; the message names the part.
        """
        starts = self._starts(rows)
        if not len(starts):
            raise InputError(f"{self.dataset.name}: no series has a window in its {name} part; use longer series")
        windows = self._enough(starts)
        if not len(windows):
            raise InputError(
                f"{self.dataset.name}: no window of the {name} part has dataset.min_observed="
                f"{self.dataset.min_observed:g} of its rows observed, in its history and in its horizon; lower it, or "
                "change dataset.split"
            )
        return windows

    def or_none(self, rows: Sequence[range]) -> Windows | None:
        """Like calling the cutter, but returns None if there are no windows."""
        return self._enough(self._starts(rows)) or None

    def _enough(self, starts: Int64[np.ndarray, "n"]) -> Windows:
        if self.observed is not None:
            starts = well_observed(starts, self.observed, self.sizes, self.dataset.min_observed)
        return Windows.of_columns(self.store, self.columns, starts=torch.from_numpy(starts), sizes=self.sizes)

    def _starts(self, rows: Sequence[range]) -> Int64[np.ndarray, "n"]:
        """Store rows at which the windows of all series start whose targets lie in these rows."""
        ranges = [self.sizes.starts(part) for part in rows]
        counts = np.array([len(starts) for starts in ranges])
        firsts = self.store.first_rows.cpu().numpy() + np.array([starts.start for starts in ranges])
        # one count over all windows, minus the number of windows in previous series
        return np.arange(counts.sum()) + np.repeat(firsts - (counts.cumsum() - counts), counts)
