"""What a run saves at its end so that `informer update` can add later rows without the earlier ones.

`kept.pt` contains the moments of the linear maps over the windows of all parts, and errors on held-out windows;
`rows.csv` contains the last rows of each series, for windows that span old and new rows. Both are bounded in size.
"""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from informer import checkpoint
from informer.base.errors import InputError
from informer.base.files import write_atomic
from informer.checkpoint import format as safe_load
from informer.checkpoint.format import REFITTED, content_digest
from informer.checkpoint.paths import FACTS, KEPT, REFIT, ROWS, read_facts
from informer.checkpoint.restore import restore_model
from informer.config.model import WindowSizes
from informer.config.training import TrainConfig
from informer.data.dataset import Data
from informer.data.rows import rows_table, series_column
from informer.linear.maps import (
    MOST_BYTES,
    KeptFit,
    Reads,
    all_runs,
    bytes_of,
    choice,
    fit_varying,
    fold_known,
    linear_fit,
    maps_of,
    set_weights,
)
from informer.linear.select import starts_of
from informer.networks.models.base import ForecastModel
from informer.networks.models.linear import maps_config
from informer.read.series import Series
from informer.scoring.intervals import Residuals, rolled_blocks
from informer.training.combination import combiner, repeated_rows
from informer.training.start import is_closed_form

MOST_VALUES = 1 << 17
"""Maximum number of saved values of all series, unless one window less one row of each needs more."""
MOST_NEEDED = 1 << 22
"""If one window less one row of each series has more values than this, no rows are saved."""
MOST_ERRORS = 1 << 22
"""Maximum number of saved errors, 16 MiB."""

UNTIL = "fitted_until"
"""Entry of `Checkpoint.data` of a refit: the last time of the rows it was fitted on."""


@dataclass(frozen=True, eq=False, slots=True)
class UpdateState:
    """Saved state of a run, to which later rows are added.

    Args:
        fit: fit of the linear maps with moments of all windows; None: see `kept_fit`.
        repeated: row of the history that the seasonal naive part of the forecast repeats at each step; None: see
            `repeated_rows`.
        errors: errors on held-out windows; None: the run has no intervals.
    """

    fit: KeptFit | None
    repeated: Sequence[int] | None
    errors: Residuals | None


def save_refit_and_state(settings: TrainConfig, data: Data, folder: Path, errors: Residuals | None) -> str | None:
    """Save the refit on all rows (`trainer.refit`), and moments, errors and rows for updates (`trainer.keep`).

    Args:
        settings: configuration of the run.
        folder: run directory with the best checkpoint.
        errors: errors from which its intervals were calibrated.

    Returns:
        A note about the refit for the report; None without one.
    """
    trainer, note, saved_fit = settings.trainer, None, None
    saved = checkpoint.load(folder)
    model = restore_model(saved)
    if trainer.keep and (fit := kept_fit(model, settings, data, most_bytes=MOST_BYTES)) is not None:
        saved_fit = fit
    if trainer.refit:
        windows = _refit(model, settings, data, saved_fit)
        combined = maps_of(model)
        assert combined is not None, "see TrainConfig.problems"
        combiner(saved, data)(combined)  # the weight of the network is in the checkpoint already
        facts = saved.data | {REFITTED: windows, UNTIL: last_time(data)}
        checkpoint.save(folder / REFIT, replace(saved, weights=model.state_dict(), data=facts))
        note = (
            f"{REFIT}, which predict uses: refitted with the same settings on {windows} windows of all parts; the "
            "scores are those of the model before the refit"
        )
    if trainer.keep and (rows := last_rows(data.panel, [split.test.stop for split in data.splits], data.sizes)):
        repeated = repeated_rows(data)
        save(folder, UpdateState(saved_fit, None if repeated is None else repeated.tolist(), errors))
        taken = [rows[0].time_col, *data.inputs]
        series_col = series_column([series.name for series in rows], settings.dataset.series_col, taken)
        write_atomic(folder / ROWS, rows_table(rows, data.categories, series_col).to_csv(index=False))
    return note


def last_time(data: Data) -> str:
    """Last time of the rows of all parts."""
    return str(
        max(series.timestamps[split.test.stop - 1] for series, split in zip(data.panel, data.splits, strict=True))
    )


def kept_fit(
    model: ForecastModel, settings: TrainConfig, data: Data, *, most_bytes: float = math.inf
) -> KeptFit | None:
    """The fit of a model's linear maps with moments of the windows of all parts.

    None if it has no maps, they were trained further or have known effects, values may be missing, or the moments take
    more than `most_bytes`.
    """
    maps = maps_of(model)
    if maps is None or maps.effects is not None or data.masked is not None or not is_closed_form(model, settings):
        return None
    fit = linear_fit(maps, maps_config(settings.model), data)
    strengths, _ = choice(fit, data)
    return KeptFit.of(fit, strengths, all_runs(data)) if bytes_of(fit, strengths) <= most_bytes else None


def _refit(model: ForecastModel, settings: TrainConfig, data: Data, saved_fit: KeptFit | None) -> int:
    """Refit the linear maps, but not the network, on the windows of all parts; returns the number of windows."""
    maps, runs = maps_of(model), all_runs(data)
    assert maps is not None, "see TrainConfig.problems"
    fit = linear_fit(maps, maps_config(settings.model), data)
    strengths, _ = choice(fit, data)  # the same as before: they are chosen on training and validation
    set_weights(fit.fit(strengths, runs) if saved_fit is None else fit.fit_from(strengths, saved_fit.sums), maps)
    fold_known(fit.known, maps)
    fit_varying(maps, maps_config(settings.model), data, data.train.at(torch.from_numpy(starts_of(runs))))
    return sum(map(len, runs))


def last_rows(panel: Sequence[Series], stops: Sequence[int], sizes: WindowSizes) -> list[Series] | None:
    """The last rows of each series before its stop; None if too many are needed (MOST_NEEDED)."""
    values, needed = len(panel) * len(panel[0].columns), sizes.rows - 1
    if needed * values > MOST_NEEDED:
        return None
    n, rows = max(needed, MOST_VALUES // values), []
    for series, stop in zip(panel, stops, strict=True):
        selection = slice(max(stop - n, 0), stop)
        rows.append(replace(series, timestamps=series.timestamps[selection], values=series.values[selection]))
    return rows


def save(folder: Path, state: UpdateState) -> None:
    """Write `kept.pt`, with a digest of its content."""
    content: dict[str, Any] = {
        "fit": None if state.fit is None else state.fit.to_plain(),
        "repeated": state.repeated,
        "errors": None if state.errors is None else _plain_errors(state.errors),
    }
    buffer = io.BytesIO()
    torch.save(content | {"digest": content_digest(content)}, buffer)
    write_atomic(folder / KEPT, buffer.getvalue())


def saved_digest(folder: Path) -> str | None:
    """The digest in `kept.pt`; None without such a file."""
    return _read(folder / KEPT)["digest"] if (folder / KEPT).exists() else None


def load(folder: Path, reads: Reads) -> UpdateState | None:
    """The saved state of a run; None if it saved none.

    Args:
        folder: run directory.
        reads: what its model reads and forecasts.

    Raises:
        InputError: the file is damaged, or of another run.
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
        or len(repeated) != reads.sizes.pred_len
        or not all(type(row) is int and 0 <= row < reads.sizes.seq_len for row in repeated)
    ):
        raise InputError(f"{path}: repeated: expected {reads.sizes.pred_len} rows of the history, found others")
    n = len({column for _, column in reads.channels})
    return UpdateState(
        None if fit is None else KeptFit.from_plain(fit, reads, where),
        repeated,
        None if errors is None else _errors(errors, reads.sizes.pred_len, n, where),
    )


def _read(path: Path) -> dict[str, Any]:
    content = safe_load.read(path)
    if not isinstance(content, dict) or set(content) != {"fit", "repeated", "errors", "digest"}:
        raise InputError(f"{path}: expected the saved moments of a run, found others; put the run's own file back")
    try:
        is_whole = (
            content_digest({name: value for name, value in content.items() if name != "digest"}) == content["digest"]
        )
    except (TypeError, ValueError):  # types that are never written
        is_whole = False
    if not is_whole:
        raise InputError(f"{path} is damaged: its content is not what was written; use another copy")
    return content


def _plain_errors(errors: Residuals) -> dict[str, Any]:
    most = max(MOST_ERRORS // errors.errors[0].numel(), 1)
    step = -(-len(errors.errors) // most)
    return {
        "errors": errors.errors[::step].clone(),
        "differences": errors.differences[::step].clone(),
        "lag": errors.lag,
        "rolled": None if errors.rolled is None else _plain_errors(errors.rolled),
    }


def _errors(plain: Any, steps: int, n: int, where: str) -> Residuals:
    if not isinstance(plain, Mapping) or set(plain) != {"errors", "differences", "lag", "rolled"}:
        raise InputError(f"{where}: errors: expected errors, differences, lag and rolled, found others")
    errors, differences, lag, rolled = (plain[name] for name in ("errors", "differences", "lag", "rolled"))
    windows = len(errors) if isinstance(errors, torch.Tensor) and errors.ndim else 0
    expected = ((errors, (windows, steps, n)), (differences, (windows, n)))
    for tensor, shape in expected:
        sound = isinstance(tensor, torch.Tensor) and tensor.dtype is torch.float32 and tuple(tensor.shape) == shape
        if not windows or not sound or (tensor.isinf() | (tensor < 0)).any():
            raise InputError(f"{where}: errors: expected numbers of at least 0 for each window, found others")
    if type(lag) is not int or lag < 1:
        raise InputError(f"{where}: errors: lag: expected at least 1, found {lag!r:.40}")
    if rolled is None:
        return Residuals(errors, differences, lag)
    return Residuals(errors, differences, lag, _errors(rolled, rolled_blocks(steps, n) * steps, n, where))
