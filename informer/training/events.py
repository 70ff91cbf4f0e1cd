"""TensorBoard's event file, written synchronously.

`SummaryWriter` writes from its own thread: it is unknown what has reached the file at a save, and a full disk shows as
a traceback of that thread. Here every event is written immediately, so that a checkpoint can record the file's length,
and a resumed run truncates what was written after it.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard.summary import custom_scalars, hparams

from informer.files import writing
from informer.training.appended import AppendedFile

LAYOUT = {
    "loss": {
        "training and validation, with the baselines": ["Multiline", ["^train/loss$", "^val/loss.*$"]],
    },
    "intervals on validation rows": {
        "coverage in percent (right: 80 and 95)": ["Multiline", ["^val/coverage_.*$"]],
        "pinball loss": ["Multiline", ["^val/pinball_.*$"]],
        "width in scaled units": ["Multiline", ["^val/width_.*$"]],
    },
}
"""Charts of several curves, in the tab Custom Scalars: category, title, kind and patterns of tags."""

SLOTS = ("attn", "cross_attn", "decoder_attn")
UNTOLD = ("run_dir", "data_dir", "resume", "init_from", "search", "decoder_attn_reason", "device", "compile")
"""Keys that do not change what is learnt."""


def _hparams(settings: Mapping[str, Any]) -> dict[str, bool | float | str]:
    """The settings that distinguish runs, without those of output files.

    TensorBoard sorts the columns by name and shows the first five: mechanisms have short names, and their parameters
    begin with that name, so that these are not all of `attn`.
    """
    names = {slot: str(settings.get(f"{slot}._target_", "")).split(".")[-2:-1] for slot in SLOTS}
    found = {slot: name[0] for slot, name in names.items() if name} | {"dataset": settings.get("dataset.name")}
    for key, value in settings.items():
        node, _, rest = key.partition(".")
        if node == "attn" and rest and rest != "_target_":
            found[f"{found['attn']}.{rest}"] = value
        elif node not in (*SLOTS, *UNTOLD, "dataset"):
            found[key] = value
    known = {key: value for key, value in found.items() if value not in (None, [], "")}
    return {key: value if isinstance(value, bool | int | float) else str(value) for key, value in known.items()}


@final
class EventFile(AppendedFile):
    """The one event file of a run.

    Args:
        path: of the file.
        length: bytes of an existing file to keep; the rest is truncated.

    Raises:
        InputError: the file cannot be written; raised by every method.
    """

    def __init__(self, path: Path, *, length: int = 0) -> None:
        super().__init__(path, length=length)
        self._records = RecordWriter(self._file)
        if self.is_new:
            self._add(Event(wall_time=time.time(), file_version="brain.Event:2"))
            self.summary(custom_scalars(LAYOUT))

    def scalar(self, tag: str, value: float, step: int) -> None:
        """One point of a curve."""
        self.summary(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), step)

    def image(self, tag: str, png: bytes, step: int) -> None:
        """An image."""
        self.summary(Summary(value=[Summary.Value(tag=tag, image=Summary.Image(encoded_image_string=png))]), step)

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """The table of hyper-parameters, and the scores as curves of one point."""
        for summary in hparams(_hparams(settings), dict(metrics)):
            self.summary(summary, step)
        for tag, value in metrics.items():
            self.scalar(tag, value, step)

    def summary(self, summary: Any, step: int = 0) -> None:
        """A summary for TensorBoard's plugins."""
        self._add(Event(wall_time=time.time(), step=step, summary=summary))

    def _add(self, event: Any) -> None:
        with writing(self.path):
            self._records.write(event.SerializeToString())
