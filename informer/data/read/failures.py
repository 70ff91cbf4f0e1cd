"""Errors of reading a table as one-line messages."""

import csv
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pandas.errors import EmptyDataError, ParserError

from informer.config.repairs import LONGEST_CELL
from informer.data.read.broken_rows import BrokenRow
from informer.data.read.limits import long_cell
from informer.errors import InputError
from informer.files import reading


@contextmanager
def read_errors(path: Path, encoding: str | None = None) -> Iterator[None]:
    """Turn errors of reading a file into an InputError."""
    try:
        with reading(path):
            yield
    except EmptyDataError as error:
        raise InputError(f"{path}: the file is empty, expected a header and rows") from error
    except UnicodeError as error:
        raise InputError(f"{path}: not {encoding} text ({error}); set dataset.encoding, such as latin-1") from error
    except MemoryError as error:
        raise InputError(f"{path}: too large for the memory of this machine; use a smaller file") from error
    except BrokenRow as error:
        raise InputError(f"{path}, {error}") from error
    except (ParserError, csv.Error) as error:
        if "field larger than field limit" in str(error):
            raise long_cell(path, LONGEST_CELL) from error
        raise InputError(f"{path}: cannot be split into cells ({' '.join(str(error).split())})") from error
    except (EOFError, LookupError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
