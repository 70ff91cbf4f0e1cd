"""What a run and an evaluation save of the test part: scores, forecasts of chosen series, and attention maps."""

import json
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float64

from informer.base.files import write_atomic
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import ATTENTION, TEST_FORECASTS
from informer.checkpoint.restore import restore_model
from informer.data.dataset import Data
from informer.data.history import windows_ahead
from informer.members.attention_maps import attention_maps
from informer.members.network import ForecastModel
from informer.read.series import column_values
from informer.scoring.backtest import Member, backtest
from informer.scoring.evaluate import START, without_network
from informer.scoring.forecasts import joined
from informer.scoring.intervals import REPORTED_LEVELS, saved_calibration
from informer.scoring.origins import newest
from informer.scoring.scores import Scores

log = logging.getLogger(__name__)

MAX_TRACKS, MAX_ORIGINS = 48, 40
"""Maximum number of pairs of series and column that a report shows, and of forecasts of each."""
NUMBERS, ROWS = 350_000, 250_000
"""Maximum number of forecast and of actual values in the file of test forecasts."""
MAP_CELLS, MAX_MAPS = 48, 48
"""Maximum number of cells per side of a saved attention map, and of maps."""


def save_results(evaluation: Scores, saved: Checkpoint, data: Data, folder: Path) -> None:
    """Write the scores of a model on the test part of `data`, and what a report shows of it: forecasts, attention maps.

    The scores are written last: a run with scores is finished.
    """
    model = restore_model(saved).to(data.train.starts.device).eval()
    write_atomic(folder / TEST_FORECASTS, test_forecasts(model, saved, data, evaluation).to_parquet(index=False))
    (folder / ATTENTION).unlink(missing_ok=True)
    if not evaluation.further["is_idle"] and (maps := _last_maps(model, data)):
        write_atomic(folder / ATTENTION, json.dumps(maps))
    evaluation.save(folder)


def test_forecasts(model: ForecastModel, saved: Checkpoint, data: Data, evaluation: Scores) -> pd.DataFrame:
    """Forecasts of chosen series and columns from evenly spaced origins of the test part, as a tidy table.

    Columns: series (empty for a single one), column, origin, step, time, actual, forecast, forecasts of the baselines
    by name, ends of intervals (lo80, hi80) and quantiles (q10). Rows of step 0 have only actual values, from the first
    history to the last row that is forecast; the last origin may be the end of the data, where actual values are not
    known.
    """
    member, sizes = Member.of_model(model, saved_calibration(saved)), data.sizes
    later = replace(member, calibration=saved_calibration(saved, recent=True))
    ahead = partial(
        windows_ahead, columns=data.columns, scaler=data.scaler, sizes=sizes, calendar=data.calendar,
        device=data.train.starts.device, trained=saved.data.names,
    )  # fmt: skip
    others = [*evaluation.baselines, *([without_network(model)] if START in evaluation.further else [])]
    levels = member.supported(tuple(reversed(REPORTED_LEVELS)))
    n_values = (1 + len(others) + 2 * len(levels) + 2 * len(model.quantiles)) * sizes.pred_len
    main = data.targets.index(data.columns.main or data.targets[-1])
    most = max(6, min(MAX_TRACKS, NUMBERS // (5 * n_values)))
    pairs = chosen_pairs(evaluation.values(evaluation.model, "scaled", "pair")["mse"], most, main)
    n_origins, n_rows = max(1, min(MAX_ORIGINS, NUMBERS // (len(pairs) * n_values))), ROWS // len(pairs)
    parts, zone = list[pd.DataFrame](), data.panel[0].timestamps.tz
    for s in dict.fromkeys(s for s, _ in pairs):
        series, first = data.panel[s], int(data.test.store.first_rows[s])
        own = ((data.test.starts >= first) & (data.test.starts < first + len(series))).nonzero()[:, 0]
        # evenly spaced windows without overlap, of which the newest is the last
        stride = max(sizes.pred_len, -(-len(own) // n_origins))
        starts = data.test.starts[own[[*newest(0, len(own) - 1, stride)]]]
        end = int(starts[-1]) - first + sizes.rows
        begin = max(int(starts[0]) - first, end - max(n_rows, sizes.rows))
        windows = data.test.at(starts[starts - first + sizes.first >= begin])
        columns = [data.targets[c] for place, c in pairs if place == s]
        roll = partial(backtest, windows=windows, panel=data.panel, columns=data.targets)
        found = [joined(roll(member, levels=levels)).table()]
        found[0] = found[0].assign(**{each.name: joined(roll(each)).table()["forecast"] for each in others})
        times, truth = series.timestamps[begin:end], column_values(series, columns)[begin:end]
        for column, values in zip(columns, truth.T, strict=True):
            found.append(pd.DataFrame({"step": 0, "time": times, "column": column, "actual": values}))
        if end == len(series) and not data.columns.future_covariates:
            panel, last = ahead([series])
            paths = joined(backtest(later, last, panel, data.targets, levels=levels))
            paths.check_finite()
            found.append(paths.table().drop(columns="actual"))
        table = pd.concat([part[part["column"].isin(columns)] for part in found], ignore_index=True)
        table["series"] = series.name if len(data.panel) > 1 else ""
        if zone is not None:  # one for all series, as a column has one
            table = table.assign(**{name: table[name].dt.tz_convert(zone) for name in ("origin", "time")})
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def chosen_pairs(mse: Float64[np.ndarray, "s n"], most: int, main: int = -1) -> list[tuple[int, int]]:
    """At most `most` pairs of series and column: the worst, the best, and others evenly between, by scaled MSE.

    At least one pair is of the column `main`: if none would be, its worst series replaces another. Worst first.
    """
    scored = [(int(s), int(c)) for s, c in zip(*np.nonzero(~np.isnan(mse)), strict=True)]
    ordered = sorted(scored, key=lambda pair: -mse[pair])
    if len(ordered) <= most:
        return ordered
    third = most // 3
    middle = ordered[third:-third]
    between = [middle[int(i)] for i in np.linspace(0, len(middle) - 1, most - 2 * third)]
    chosen = {*ordered[:third], *between, *ordered[-third:]}
    first = next(pair for pair in ordered if pair[1] == main % mse.shape[1])
    if not any(pair[1] == first[1] for pair in chosen):
        chosen = {*chosen} - {between[-1]} | {first}
    return [pair for pair in ordered if pair in chosen]


def _last_maps(model: ForecastModel, data: Data) -> dict[str, Any] | None:
    """Attention maps of the last test window, and which window it is; None without any."""
    last = torch.tensor([len(data.test) - 1])
    s = int(data.test.series(last)[0])
    row = int(data.test.starts[last]) - int(data.test.store.first_rows[s]) + data.sizes.seq_len - 1
    where = f"{data.panel[s].name}, " if len(data.panel) > 1 else ""
    maps: list[dict[str, Any]] = []
    n_maps = 0
    for each in attention_maps(model, data.test.batch(last)):
        heads = each.weights[0]
        n_maps += len(heads)
        if n_maps > MAX_MAPS:
            log.warning(f"attention maps from {each.layer_name} on are not saved for the report; {MAX_MAPS} are")
            break
        cells = min(heads.shape[1], MAP_CELLS), min(heads.shape[2], MAP_CELLS)
        small = F.adaptive_max_pool2d(heads[None].float(), cells)[0].double()
        shown = small.numpy().round(6).tolist()
        maps.append({"layer_name": each.layer_name, "lengths": list(each.lengths), "heads": shown})
    origin = data.panel[s].timestamps[row]
    return {"window": f"{where}history up to {origin} (the last test window)", "maps": maps} if maps else None
