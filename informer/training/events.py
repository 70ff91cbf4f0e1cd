"""TensorBoard's event file, written in step with the run.

`SummaryWriter` writes from a thread of its own: what has reached the file at a save is not known, and a full disk shows
as a traceback of that thread. Here every event is written where it is made, so that a checkpoint can note the file's
length, and a resumed run cuts off what was written after it.
"""

import os
import time
from pathlib import Path
from typing import Any, final

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from informer.files import writing

NAME = "events.out.tfevents.run"
"""TensorBoard reads every file with `tfevents` in its name."""


@final
class EventFile:
    """The one event file of a run.

    Args:
        path: where it is, or is to be.
        length: bytes to keep of the file that is there; what follows them is cut off.

    Raises:
        InputError: the file cannot be written; from every method.
    """

    def __init__(self, path: Path, *, length: int = 0) -> None:
        self.path = path
        with writing(self.path):
            self._file = self.path.open("ab")
            kept = min(length, self._size())
            if kept < self._size():
                self._file.truncate(kept)
        self._records = RecordWriter(self._file)
        if not kept:
            self._add(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def scalar(self, tag: str, value: float, step: int) -> None:
        """One point of a curve."""
        self.summary(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), step)

    def image(self, tag: str, png: bytes, step: int) -> None:
        """A picture."""
        self.summary(Summary(value=[Summary.Value(tag=tag, image=Summary.Image(encoded_image_string=png))]), step)

    def summary(self, summary: Any, step: int = 0) -> None:
        """Whatever TensorBoard's plugins read."""
        self._add(Event(wall_time=time.time(), step=step, summary=summary))

    def _add(self, event: Any) -> None:
        with writing(self.path):
            self._records.write(event.SerializeToString())

    def flush(self) -> None:
        """Show what was written so far to other programs."""
        with writing(self.path):
            self._file.flush()

    def sync(self) -> int:
        """Put what was written so far on disk; the file's length."""
        self.flush()
        with writing(self.path):
            os.fsync(self._file.fileno())
        return self._size()

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Write the rest and close."""
        with writing(self.path):
            self._file.close()
