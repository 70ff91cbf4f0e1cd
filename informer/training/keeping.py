"""What a run keeps at its end, so that `informer update` can add later rows without the earlier ones.

`kept.pt` holds the moments of the linear maps over the windows of all parts, and errors on windows that were held out;
`rows.csv` the last rows of each series, which windows over the seam read. Both are bounded in size.
"""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from informer import checkpoint
from informer.checkpoint import safe_load
from informer.checkpoint.digest import content_digest
from informer.checkpoint.facts import read_facts
from informer.checkpoint.format import REFITTED
from informer.checkpoint.paths import FACTS, KEPT, REFIT, ROWS
from informer.checkpoint.restore import restore_model
from informer.config.lengths import WindowSizes
from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.data.read.source import Series
from informer.data.rows import rows_table, series_column
from informer.errors import InputError
from informer.files import write_atomic
from informer.inference.intervals import Residuals
from informer.linear.fold import all_runs, choice, fold, fold_known, linear_fit
from informer.linear.kept import MOST_BYTES, KeptFit, Reads, bytes_of
from informer.models.base import ForecastModel
from informer.models.linear import Linear
from informer.training.combination import combiner, repeated_rows
from informer.training.linear_skip import maps_of, offered

MOST_VALUES = 1 << 17
"""Of all series that are kept, unless a window less one row of each is more."""
MOST_NEEDED = 1 << 22
"""Values of windows less one row of all series, beyond which no rows are kept."""
MOST_ERRORS = 1 << 22
"""Numbers of errors that are kept: 16 MiB."""

UNTIL = "fitted_until"
"""Entry of `Checkpoint.data` of a refit: the last time of the rows that it was fitted on."""


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """What later rows are added to.

    Args:
        fit: of the linear maps over all windows; None: there are none, they were trained further, or are too large.
        repeated: row of the history that the seasonal naive in the forecast repeats at each step; None: see
            `repeated_rows`.
        errors: on windows that were held out; None: the run has no intervals.
    """

    fit: KeptFit | None
    repeated: Sequence[int] | None
    errors: Residuals | None


def close(settings: TrainConfig, data: Data, folder: Path, errors: Residuals | None) -> str | None:
    """Save the model fitted once more on the rows of all parts, and what is kept, as far as the configuration says;
    returns what a reader of the scores should know.

    Args:
        folder: of the run, with its best checkpoint.
        errors: that its intervals come from.
    """
    trainer, note, kept = settings.trainer, None, None
    saved = checkpoint.load(folder)
    model = restore_model(saved)
    if trainer.keep and (found := kept_fit(model, settings, data, most_bytes=MOST_BYTES)) is not None:
        kept = found
    if trainer.refit:
        windows = _refit(model, settings, data, kept)
        combined = maps_of(model)
        assert combined is not None, "see TrainConfig.problems"
        combiner(saved, data)(combined)  # what the network adds has its weight already
        facts = saved.data | {REFITTED: windows, UNTIL: last_time(data)}
        checkpoint.save(folder / REFIT, replace(saved, weights=model.state_dict(), data=facts))
        note = (
            f"{REFIT}, which predict uses: fitted once more with the same settings, on {windows} windows of all parts; "
            "the scores are of the model before"
        )
    if trainer.keep and (rows := last_rows(data.panel, [split.test.stop for split in data.splits], data.sizes)):
        repeated = repeated_rows(data)
        save(folder, Kept(kept, None if repeated is None else repeated.tolist(), errors))
        taken = [rows[0].time_col, *data.inputs]
        series_col = series_column([one.name for one in rows], settings.dataset.series_col, taken)
        write_atomic(folder / ROWS, rows_table(rows, data.categories, series_col).to_csv(index=False))
    return note


def last_time(data: Data) -> str:
    """Of the rows of all parts."""
    return str(max(one.timestamps[part.test.stop - 1] for one, part in zip(data.panel, data.splits, strict=True)))


def kept_fit(
    model: ForecastModel, settings: TrainConfig, data: Data, *, most_bytes: float = math.inf
) -> KeptFit | None:
    """The moments of a model's linear maps over the windows of all parts; None where it has none, they were trained
    further, read effects of columns or holidays known ahead, values may be missing, or there are more than
    `most_bytes`."""
    maps = maps_of(model)
    if maps is None or maps.effects is not None or data.masked is not None or not is_closed_form(model, settings):
        return None
    fit = linear_fit(maps, offered(settings.model), data)
    strengths, _ = choice(fit, data)
    return KeptFit.of(fit, strengths, all_runs(data)) if bytes_of(fit, strengths) <= most_bytes else None


def _refit(model: ForecastModel, settings: TrainConfig, data: Data, kept: KeptFit | None) -> int:
    """Fit the linear maps once more, on the windows of all parts, and leave what a network adds to them; returns how
    many windows they are."""
    maps, runs = maps_of(model), all_runs(data)
    assert maps is not None, "see TrainConfig.problems"
    fit = linear_fit(maps, offered(settings.model), data)
    strengths, _ = choice(fit, data)  # the same as before: they are chosen on training and validation
    fold(fit.fit(strengths, runs) if kept is None else fit.fit_from(strengths, kept.sums), maps)
    fold_known(fit.known, maps)
    return sum(map(len, runs))


def is_closed_form(model: ForecastModel, settings: TrainConfig) -> bool:
    """Its maps are as they were fitted."""
    return not isinstance(model, Linear) or settings.trainer.max_steps == 0


def last_rows(panel: Sequence[Series], stops: Sequence[int], sizes: WindowSizes) -> list[Series] | None:
    """The last rows of each series before its stop; None where that is too much."""
    values, needed = len(panel) * len(panel[0].columns), sizes.rows - 1
    if needed * values > MOST_NEEDED:
        return None
    n, found = max(needed, MOST_VALUES // values), []
    for series, stop in zip(panel, stops, strict=True):
        part = slice(max(stop - n, 0), stop)
        found.append(replace(series, timestamps=series.timestamps[part], values=series.values[part]))
    return found


def save(folder: Path, kept: Kept) -> None:
    """Write `kept.pt`, with a digest of its content."""
    content: dict[str, Any] = {
        "fit": None if kept.fit is None else kept.fit.to_plain(),
        "repeated": kept.repeated,
        "errors": None if kept.errors is None else _plain_errors(kept.errors),
    }
    buffer = io.BytesIO()
    torch.save(content | {"digest": content_digest(content)}, buffer)
    write_atomic(folder / KEPT, buffer.getvalue())


def written_digest(folder: Path) -> str | None:
    """The digest in `kept.pt`; None without such a file."""
    return _read(folder / KEPT)["digest"] if (folder / KEPT).exists() else None


def load(folder: Path, of: Reads) -> Kept | None:
    """What a run kept; None if it kept nothing.

    Args:
        of: what its model reads and forecasts.

    Raises:
        InputError: it is damaged, or of another run.
    """
    path = folder / KEPT
    if not path.exists() or not (folder / ROWS).exists():
        return None
    content = _read(path)
    noted = read_facts(folder).get("digests", {}).get(KEPT)
    if noted is not None and noted != content["digest"]:
        raise InputError(
            f"{path}: expected the file that {folder / FACTS} describes, found another; put the run's own file back"
        )
    fit, repeated, errors, where = content["fit"], content["repeated"], content["errors"], str(path)
    if repeated is not None and (
        not isinstance(repeated, list)
        or len(repeated) != of.sizes.pred_len
        or not all(type(row) is int and 0 <= row < of.sizes.seq_len for row in repeated)
    ):
        raise InputError(f"{path}: repeated: expected {of.sizes.pred_len} rows of the history, found others")
    n = len({column for _, column in of.channels})
    return Kept(
        None if fit is None else KeptFit.from_plain(fit, of, where),
        repeated,
        None if errors is None else _errors(errors, of.sizes, n, where),
    )


def _read(path: Path) -> dict[str, Any]:
    content = safe_load.read(path)
    if not isinstance(content, dict) or set(content) != {"fit", "repeated", "errors", "digest"}:
        raise InputError(f"{path}: expected what a run keeps, found something else; put the run's own file back")
    try:
        is_whole = (
            content_digest({name: part for name, part in content.items() if name != "digest"}) == content["digest"]
        )
    except (TypeError, ValueError):  # content of kinds that are never written
        is_whole = False
    if not is_whole:
        raise InputError(f"{path} is damaged: its content is not what was written; use another copy")
    return content


def _plain_errors(found: Residuals) -> dict[str, Any]:
    most = max(MOST_ERRORS // found.errors[0].numel(), 1)
    step = -(-len(found.errors) // most)
    return {"errors": found.errors[::step].clone(), "differences": found.differences[::step].clone(), "lag": found.lag}


def _errors(plain: Any, sizes: WindowSizes, n: int, where: str) -> Residuals:
    if not isinstance(plain, Mapping) or set(plain) != {"errors", "differences", "lag"}:
        raise InputError(f"{where}: errors: expected errors, differences and lag, found others")
    errors, differences, lag = (plain[name] for name in ("errors", "differences", "lag"))
    windows = len(errors) if isinstance(errors, torch.Tensor) and errors.ndim else 0
    expected = ((errors, (windows, sizes.pred_len, n)), (differences, (windows, n)))
    for part, shape in expected:
        sound = isinstance(part, torch.Tensor) and part.dtype is torch.float32 and tuple(part.shape) == shape
        if not windows or not sound or not (part.isfinite() & (part >= 0)).all():
            raise InputError(f"{where}: errors: expected numbers of at least 0 for each window, found others")
    if type(lag) is not int or lag < 1:
        raise InputError(f"{where}: errors: lag: expected at least 1, found {lag!r:.40}")
    return Residuals(errors, differences, lag)
