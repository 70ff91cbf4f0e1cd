"""Status of each file of a job, recorded while it runs, so that it can be resumed."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import final

from informer.errors import InputError, with_addresses
from informer.files import fingerprint, remove_temporary, write_atomic, writing
from informer.inference.jobs.inputs import InputFile
from informer.inference.jobs.transfer import SUMMARY
from informer.inference.reader import LEFT_OUT

JOURNAL = f".{SUMMARY}.unfinished"
OK, ERROR = "ok", "error"
LONGEST = 2000
"""Maximum length of a message in the summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Status of one file.

    Args:
        file: its path.
        status: OK or ERROR.
        rows: number of rows.
        origin: its last timestamp.
        output: file of the forecast, relative to the output folder.
        message: the problems, one line each; without problems, the repairs.
        size, changed: size of the file when it was read, in bytes, and its time of change, in nanoseconds since 1970.
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
        """The message as one line of at most LONGEST characters."""
        line = " | ".join(self.message.splitlines())
        return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."

    @property
    def left_out(self) -> list[str]:
        """Messages about series that were not forecast."""
        return [line for line in self.message.splitlines() if line.startswith(LEFT_OUT)]

    def cells(self) -> list[str]:
        """Cells of the summary in the order of HEADER, without line breaks and without the job."""
        return [self.summed_up if name == "message" else getattr(self, name) for name in HEADER[:-1]]


HEADER = (*(field.name for field in fields(Row)), "job")
_FIRST_LINE = ",".join(HEADER).encode()


@final
class Journal:
    """The rows of a job: appended to a hidden file in the output folder, and finally written as the summary.

    Args:
        folder: existing output folder.
        job: digest of the job.
        outputs: all files that the job may write, relative to the folder.
        resume: keep the rows of the same job.

    Raises:
        InputError: the folder has a summary not written by a job, or cannot be written.
    """

    def __init__(self, folder: Path, job: str, outputs: Iterable[str], *, resume: bool) -> None:
        self._folder = folder
        _check_ours(folder / SUMMARY)
        remove_temporary(folder / output for output in (SUMMARY, JOURNAL, *outputs))
        self._job = job
        rows = [*_read(folder / SUMMARY, job), *_read(folder / JOURNAL, job)] if resume else []
        self._rows = {row.file: row for row in rows}
        write_atomic(folder / JOURNAL, _encoded(self._text(self._rows.values(), header=True)))
        with writing(folder / SUMMARY):
            (folder / SUMMARY).unlink(missing_ok=True)

    def is_done(self, source: InputFile, outputs: Sequence[str]) -> bool:
        """Whether the same file was forecast by the same job, and all its outputs exist.

        Args:
            outputs: files that the job would write for it, relative to the folder, the forecasts first.
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
        """Record the status of some files, after their forecasts were written."""
        self._rows |= {row.file: row for row in rows}
        path = self._folder / JOURNAL
        with writing(path), path.open("ab") as file:
            file.write(_encoded(self._text(rows)))

    def finish(self, sources: Iterable[InputFile]) -> list[Row]:
        """Write the summary with one row per file, in the order of `sources`; returns the rows."""
        rows = [self._rows[str(source.path)] for source in sources]
        write_atomic(self._folder / SUMMARY, _encoded(with_addresses(self._text(rows, header=True))))
        (self._folder / JOURNAL).unlink()
        return rows

    def _text(self, rows: Iterable[Row], *, header: bool = False) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([HEADER] if header else [])
        writer.writerows((*row.cells(), self._job) for row in rows)
        return text.getvalue()


def _check_ours(path: Path) -> None:
    """Raise an InputError if the summary was not written by a job, so that it is not overwritten."""
    if not path.exists():
        return
    with writing(path), path.open("rb") as file:
        first = file.readline(len(_FIRST_LINE) + 2).rstrip(b"\r\n")
    if first != _FIRST_LINE:
        raise InputError(
            f"{path}: expected the summary of a job, found another file of that name; choose another output folder"
        )


def _encoded(text: str) -> bytes:
    """As UTF-8; file names that are not valid UTF-8 keep their bytes."""
    return text.encode(errors="surrogateescape")


def _read(path: Path, job: str) -> list[Row]:
    """The rows of a job in a summary or journal; a truncated journal may end within a row."""
    if not path.exists():
        return []
    with writing(path), path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        lines = list(_lines(csv.reader(file)))
    return [Row(**dict(zip(HEADER[:-1], line, strict=False))) for line in lines if line[len(HEADER) - 1 :] == [job]]


def _lines(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """The readable lines; files of unreadable lines are forecast again."""
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            continue
