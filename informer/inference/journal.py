"""The status of every file of a job: a table that grows while the job runs, so that it can be resumed."""

import csv
import io
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, final

from informer.base.errors import FileError, with_addresses
from informer.base.files import csv_text, fingerprint, remove_temporary, write_atomic, writing
from informer.checkpoint.paths import SUMMARY
from informer.inference.reader import LEFT_OUT
from informer.read.series import Series

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

    @classmethod
    def of(cls, path: Path) -> "Row":
        """The row of a file that is not read yet."""
        size, changed = fingerprint(path)
        return cls(file=str(path), size=size, changed=changed)

    def read(self, panel: Sequence[Series]) -> "Row":
        """With the row count, origin and repairs of the series that were read."""
        origin = max(series.timestamps[-1] for series in panel)
        repairs = "\n".join(line for series in panel for line in series.repairs)
        return replace(self, rows=str(sum(series.n_rows for series in panel)), origin=str(origin), message=repairs)

    @property
    def summed_up(self) -> str:
        """The message as one line of at most LONGEST characters."""
        line = " | ".join(self.message.splitlines())
        return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."

    @property
    def left_out(self) -> list[str]:
        """Messages about series that were not forecast."""
        return [line for line in self.message.splitlines() if line.startswith(LEFT_OUT)]

    @property
    def is_complete(self) -> bool:
        """Whether all of its series were forecast."""
        return self.status == OK and not self.left_out

    def to_dict(self, folder: Path) -> dict[str, Any]:
        """The file, its forecast in the output folder, and messages, as plain containers for JSON."""
        output = str(folder / self.output) if self.output else None
        return {"file": self.file, "status": self.status, "forecast": output, "messages": self.message.splitlines()}

    def cells(self, job: str) -> list[str]:
        """Cells of the summary in the order of HEADER, without line breaks."""
        return [*(self.summed_up if name == "message" else getattr(self, name) for name in HEADER[:-1]), job]


HEADER = (*(field.name for field in fields(Row)), "job")


@final
class Journal:
    """The rows of a job: appended to the summary in the output folder, and finally put in the order of the files.

    Args:
        folder: existing output folder.
        job: digest of the job.
        outputs: all files that the job may write, relative to the folder.
        resume: keep the rows of the same job.

    Raises:
        InputError: the folder has a summary not written by a job, or cannot be written.
    """

    def __init__(self, folder: Path, job: str, outputs: Iterable[str], *, resume: bool) -> None:
        before, path = list[list[str]](), folder / SUMMARY
        self._folder, self._job, self._path = folder, job, path
        with writing(path), suppress(FileNotFoundError, csv.Error):  # of a killed job: what has no row is done again
            before.extend(csv.reader(io.StringIO(path.read_bytes().decode(errors="surrogateescape"), newline="")))
        if before[:1] != [[*HEADER]] and path.exists():
            raise FileError(
                f"{path}: expected the summary of a job, found another file of that name; choose another output folder"
            )
        remove_temporary(folder / output for output in (SUMMARY, *outputs))
        same = [line[:-1] for line in before if resume and line[len(HEADER) - 1 :] == [job]]
        self._rows = {line[0]: Row(**dict(zip(HEADER, line, strict=False))) for line in same}
        write_atomic(self._path, self._text(self._rows.values(), header=True))

    def is_done(self, path: Path, outputs: Sequence[str]) -> bool:
        """Whether the same file was forecast by the same job, and all its outputs exist.

        Args:
            outputs: files that the job would write for it, relative to the folder, the forecasts first.
        """
        row = self._rows.get(str(path))
        return (
            row is not None
            and (row.status, row.output, row.size, row.changed) == (OK, outputs[0], *fingerprint(path))
            and all((self._folder / output).exists() for output in outputs)
        )

    def add(self, rows: Sequence[Row]) -> None:
        """Record the status of some files, after their forecasts were written."""
        self._rows |= {row.file: row for row in rows}
        with writing(self._path), self._path.open("ab") as file:
            file.write(self._text(rows))

    def finish(self, paths: Iterable[Path]) -> list[Row]:
        """Write the summary with one row per file, in this order; returns the rows."""
        rows = [self._rows[str(path)] for path in paths]
        write_atomic(self._path, self._text(rows, header=True))
        return rows

    def _text(self, rows: Iterable[Row], *, header: bool = False) -> bytes:
        """As UTF-8; file names that are not valid UTF-8 keep their bytes."""
        text = csv_text([*([HEADER] if header else []), *(row.cells(self._job) for row in rows)])
        return with_addresses(text).encode(errors="surrogateescape")
