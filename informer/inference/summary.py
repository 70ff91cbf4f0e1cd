"""What became of each file of a job: written down as the job goes, so that it can be taken up where it stopped."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import final

from informer.files import remove_temporary, write_atomic, writing
from informer.inference.inputs import Source

SUMMARY, JOURNAL = "summary.csv", ".summary.csv.unfinished"
OK, ERROR = "ok", "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One file.

    Args:
        file: its path.
        status: OK or ERROR.
        rows: how many it has.
        origin: the last of its times, after which the forecast begins.
        output: file of the forecast, from the output folder.
        message: what was wrong, a line for each problem; where nothing was, what was repaired.
        size, changed: of the file when it was read, in bytes and in nanoseconds since 1970.
    """

    file: str
    status: str = OK
    rows: str = ""
    origin: str = ""
    output: str = ""
    message: str = ""
    size: str
    changed: str

    @property
    def summed_up(self) -> str:
        """The message as one line."""
        return " | ".join(self.message.splitlines())

    def cells(self) -> list[str]:
        """In the order of HEADER, each of one line."""
        return [self.summed_up if name == "message" else getattr(self, name) for name in HEADER[:-1]]


HEADER = (*(field.name for field in fields(Row)), "job")


def fingerprint(path: Path) -> tuple[str, str]:
    """Size and time of the last change of a file; empty where there is none."""
    try:
        state = path.stat()
    except OSError:
        return "", ""
    return str(state.st_size), str(state.st_mtime_ns)


@final
class Journal:
    """The rows of a job in its output folder: appended to a hidden file, in the end the summary.

    Args:
        folder: where forecasts go; it exists.
        job: digest of what is done.
        resume: keep the rows of the same job there.
    """

    def __init__(self, folder: Path, job: str, *, resume: bool) -> None:
        self._folder = folder
        remove_temporary(folder)
        self._job = job
        found = [*_read(folder / SUMMARY, job), *_read(folder / JOURNAL, job)] if resume else []
        self._rows = {row.file: row for row in found}
        write_atomic(folder / JOURNAL, _encoded(self._text(self._rows.values(), header=True)))
        (folder / SUMMARY).unlink(missing_ok=True)

    def is_done(self, source: Source, outputs: Sequence[str]) -> bool:
        """The same file was forecast by the same job, and all that belongs to it is there.

        Args:
            outputs: what the job would write for it, from the folder; the forecasts first.
        """
        row = self._rows.get(str(source.path))
        return (
            row is not None
            and row.status == OK
            and (row.size, row.changed) == fingerprint(source.path)
            and row.output == outputs[0]
            and all((self._folder / output).exists() for output in outputs)
        )

    def add(self, rows: Sequence[Row]) -> None:
        """Note what became of some files, whose forecasts have been written."""
        self._rows |= {row.file: row for row in rows}
        path = self._folder / JOURNAL
        with writing(path), path.open("ab") as file:
            file.write(_encoded(self._text(rows)))

    def finish(self, sources: Iterable[Source]) -> list[Row]:
        """Write the summary, one row a file of the job, in their order; returns them."""
        rows = [self._rows[str(source.path)] for source in sources]
        write_atomic(self._folder / SUMMARY, _encoded(self._text(rows, header=True)))
        (self._folder / JOURNAL).unlink()
        return rows

    def _text(self, rows: Iterable[Row], *, header: bool = False) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([HEADER] if header else [])
        writer.writerows((*row.cells(), self._job) for row in rows)
        return text.getvalue()


def _encoded(text: str) -> bytes:
    """As UTF-8; a file's name that is not in it keeps its bytes."""
    return text.encode(errors="surrogateescape")


def _read(path: Path, job: str) -> list[Row]:
    """The rows of a job in a summary or journal; a journal that was cut short may end within a row."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        lines = list(csv.reader(file))
    return [Row(**dict(zip(HEADER[:-1], line, strict=False))) for line in lines if line[len(HEADER) - 1 :] == [job]]
