"""TensorBoard's event file, written synchronously.

`SummaryWriter` writes from a background thread: what has reached the file at a save is unknown, and a full disk shows
as a traceback of that thread. Here every event is written immediately, so a checkpoint can record the file's length,
and a resumed run truncates later events.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, final

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard.summary import custom_scalars, hparams

from informer.files import AppendedFile, writing

LAYOUT = {
    "loss": {
        "training and validation, with the baselines": ["Multiline", ["^train/loss$", "^val/loss.*$"]],
    },
    "intervals on validation rows": {
        "coverage in percent (nominal: 80 and 95)": ["Multiline", ["^val/coverage_.*$"]],
        "pinball loss": ["Multiline", ["^val/pinball_.*$"]],
        "width in scaled units": ["Multiline", ["^val/width_.*$"]],
    },
}
"""Charts of several curves, in the tab Custom Scalars: category, title, kind and patterns of tags."""

SLOTS = ("attn", "cross_attn", "decoder_attn")
IGNORED = (
    "run_dir", "data_dir", "resume", "init_from", "search", "decoder_attn_reason", "device", "compile", "engine",
    "workers",
)  # fmt: skip
"""Keys left out of the table of hyper-parameters."""
SHOWN = ("attn", "dataset", "model.family", "pred_len", "seq_len")
"""Hyper-parameters in the table at first. TensorBoard shows five: those marked as different between runs, by name."""


def _hparams(settings: Mapping[str, Any]) -> dict[str, bool | float | str]:
    """The settings that distinguish runs.

    Mechanisms are shown by short name, and their parameters are prefixed with it instead of `attn`.
    """
    names = {slot: str(settings.get(f"{slot}._target_", "")).split(".")[-2:-1] for slot in SLOTS}
    hparams_by_name = {slot: name[0] for slot, name in names.items() if name} | {
        "dataset": settings.get("dataset.name")
    }
    for key, value in settings.items():
        node, _, parameter = key.partition(".")
        if node == "attn" and parameter and parameter != "_target_":
            hparams_by_name[f"{hparams_by_name['attn']}.{parameter}"] = value
        elif node not in (*SLOTS, *IGNORED, "dataset"):
            hparams_by_name[key] = value
    non_empty = {key: value for key, value in hparams_by_name.items() if value not in (None, [], "")}
    return {key: value if isinstance(value, bool | int | float) else str(value) for key, value in non_empty.items()}


def _ordered(experiment: Summary) -> Summary:
    """The description of the table with `SHOWN` as its first columns."""
    plugin = experiment.value[0].metadata.plugin_data
    content = HParamsPluginData.FromString(plugin.content)
    for each in content.experiment.hparam_infos:
        each.differs = each.name in SHOWN
    plugin.content = content.SerializeToString()
    return experiment


@final
class EventFile(AppendedFile):
    """The event file of a run; see `AppendedFile` for arguments and errors."""

    TAKES_PICTURES: ClassVar[bool] = True

    def __init__(self, path: Path, *, length: int = 0) -> None:
        super().__init__(path, length=length)
        self._records = RecordWriter(self._file)
        if self.is_new:
            self._add(Event(wall_time=time.time(), file_version="brain.Event:2"))
            self.summary(custom_scalars(LAYOUT))

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Add a point of a curve."""
        self.summary(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), step)

    def image(self, tag: str, png: bytes, step: int) -> None:
        """Add an image."""
        self.summary(Summary(value=[Summary.Value(tag=tag, image=Summary.Image(encoded_image_string=png))]), step)

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Add the table of hyper-parameters, and the scores as curves with one point."""
        experiment, *session = hparams(_hparams(settings), dict(metrics))
        for summary in (_ordered(experiment), *session):
            self.summary(summary, step)
        for tag, value in metrics.items():
            self.scalar(tag, value, step)

    def summary(self, summary: Any, step: int = 0) -> None:
        """Add a summary for TensorBoard's plugins."""
        self._add(Event(wall_time=time.time(), step=step, summary=summary))

    def _add(self, event: Any) -> None:
        with writing(self.path):
            self._records.write(event.SerializeToString())
