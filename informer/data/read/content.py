"""Read CSV text that is not in a file, such as the body of a request."""

import io
from pathlib import Path

from informer.config.dataset import DatasetConfig
from informer.data.read.cells import check_lengths
from informer.data.read.failures import read_errors
from informer.data.read.limits import bounded
from informer.data.read.table import Table, csv_table


def cells_of_content(content: bytes, name: str, config: DatasetConfig) -> Table:
    """The cells of CSV text, which must not be compressed.

    Args:
        content: the text, encoded.
        name: its name in errors.
        config: its format.

    Raises:
        InputError: see `read_table`.
    """
    label, hints = Path(name), config.hints
    with read_errors(label, hints.encoding), bounded(io.BytesIO(content), label, config.limits) as file:
        table = csv_table(label, file, hints, config.as_text)
        check_lengths(label, table.frame, config.limits)
    return table
