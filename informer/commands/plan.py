"""Choose the training configuration from the data: horizon, columns, split, short series.

Datasets to forecast: a file, files that form one dataset, or files with separate models.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import compress
from pathlib import Path

import numpy as np

from informer.base.errors import InputError, ReportError, counted, listed, with_addresses
from informer.base.files import expanded
from informer.config.commands import ForecastConfig
from informer.config.data import DatasetConfig, SplitConfig, repaired
from informer.config.fields import check
from informer.config.model import WindowSizes
from informer.config.overrides import shell_command
from informer.config.training import TrainConfig, tuning
from informer.data.diagnosis import Survey, in_words, seasons_of, series_column, survey_file
from informer.data.history import Future, Futures, future_index, futures_of_table
from informer.data.panel import series_names
from informer.data.seasonality import Season
from informer.inference.job import name_sources
from informer.inference.untrained import categories_ahead, check_ahead, columns_ahead, targets_of
from informer.members.regression import far_ahead
from informer.read.checks import CONFIRM, ends_without
from informer.read.columns import CategoryReader, coded
from informer.read.files import list_files
from informer.read.numbered_times import digits_format
from informer.read.series import Series, column_values, table_of_file
from informer.read.shapes import prepared, with_series_names
from informer.read.split import WITHOUT_TRAINING, cut_rows, lookback, shortage, split_for
from informer.read.table import Table, read_table, without

MOST_LINES = 20
"""Maximum number of problems of one file that are listed."""


Failure = tuple[str, Sequence[str], str]
"""Path of what was not forecast, problems and how to fix them, and the first problem with the number of others."""


def failure(path: str, lines: Sequence[str], n_problems: int | None = None) -> Failure:
    """A file or dataset that was not forecast; `lines` may show a part of its problems, and advice."""
    n_others = (len(lines) if n_problems is None else n_problems) - 1
    others = f" (and {counted(n_others, 'more problem')}: {shell_command('inspect', path)})" if n_others > 0 else ""
    return path, lines, lines[0] + others


def find_subjects(settings: ForecastConfig) -> tuple[list[Survey], list[Failure]]:
    """Read the files, and group them into datasets; returns these, and the files that cannot be forecast.

    Raises:
        ReportError: no file can be forecast; lists the problems, which need `repair=auto` or other settings.
    """
    pattern = settings.input or ""
    many = list_files("input", pattern, settings.dataset.exclude_files)
    paths = [expanded(pattern)] if many is None else many
    surveys: list[Survey] = []
    failures: list[Failure] = []
    errors: list[InputError] = []
    for path in paths:
        try:
            survey = survey_file(path, replace(settings.dataset, target=settings.target))
        except InputError as error:
            failures.append(failure(str(path), str(error).splitlines()))
            errors.append(error)
            continue
        if lines := _refusal(survey, settings):
            failures.append(failure(str(path), lines, len(survey.lines)))
            errors += survey.problems
        else:
            surveys.append(survey)
    if not surveys:
        raise ReportError([line for _, lines, _ in failures for line in lines], errors)
    kinds = {(survey.panel[0].columns, survey.panel[0].frequency.code, survey.dataset.series_col) for survey in surveys}
    names = series_names([Path(survey.path) for survey in surveys])
    if many is None or len(surveys) == 1 or len(kinds) > 1:
        return [_located(replace(each, name=own)) for each, own in zip(surveys, names, strict=True)], failures
    first, *others = surveys
    panel = [  # named by the files
        series if survey.dataset.series_col else replace(series, name=own)
        for survey, own in zip(surveys, names, strict=True)
        for series in survey.panel
    ]
    together = replace(
        first,
        path=pattern,
        name=Path(with_addresses(pattern).rstrip("/*?.")).name or "files",
        dataset=repaired(first.dataset, [repair for survey in others for repair in survey.repairs]),
        repairs=[repair for survey in surveys for repair in survey.repairs],
        panel=panel,
        log=[line for survey in surveys for line in survey.log],
        warnings=[line for survey in surveys for line in survey.warnings],
        n_files=len(surveys),
    )
    return [_located(together, [Path(path).name for path, _, _ in failures])], failures


def _located(subject: Survey, excluded: Sequence[str] = ()) -> Survey:
    """With its address as the path of the dataset; `excluded`: names of files that it matches but that are not read."""
    dataset, path = subject.dataset, with_addresses(subject.path)
    dataset = replace(dataset, path=path, target=None, exclude_files=[*dataset.exclude_files, *excluded])
    return replace(subject, dataset=dataset)


def _refusal(survey: Survey, settings: ForecastConfig) -> list[str]:
    """Why a file cannot be forecast, and what to do; empty if it can."""
    loses_target = survey.is_readable and settings.target in survey.dropped
    can_repair = survey.is_readable and not survey.asks and not loses_target
    if survey.far and settings.repair == "auto":
        return [*survey.warnings, f"to repair it, add repair=auto {in_words([survey.far])[0]}"]
    if not survey.problems or (settings.repair == "auto" and can_repair):
        return []
    lines, command = survey.lines[:MOST_LINES], shell_command("inspect", survey.path)
    if settings.target is None and (continues := _plan_without_target(survey, settings)):
        return [*lines, continues]
    if (more := len(survey.lines) - MOST_LINES) > 0:
        lines.append(f"{Path(survey.path).name}: {more} more problems ({command})")
    if not survey.is_readable or loses_target:
        return [*lines, f"repair=auto cannot fix all of this: fix the file, or see {command}"]
    dropped = f" and leaves out {listed(survey.dropped)}" if survey.dropped else ""
    words = in_words([repair for repair in survey.repairs if repair != CONFIRM])
    allowed = f" {in_words([CONFIRM])[0]}" if survey.asks else ""
    return [*lines, f"to repair it, add repair=auto{allowed}, which sets {' '.join(words)}{dropped}"]


def _plan_without_target(survey: Survey, settings: ForecastConfig) -> str:
    """What to do with rows at the end of a file that lack only one column; empty if there are none."""
    frame = read_table(Path(survey.path), settings.dataset).frame.select_dtypes("number")
    empty = [name for name in frame.columns if frame[name].isna().iloc[-1] and digits_format(frame[name]) is None]
    target = empty[0] if len(empty) == 1 else None
    asked = replace(settings, input=survey.path, target=target, model=None, future=None, future_covariates=[])
    _, known, _ = with_future(asked)
    words = f"if the last rows, which have no {target}, are to be forecast with {listed(known, 3)}, add target={target}"
    return words if known else ""


MOST_HORIZON = 96
"""Maximum default horizon, in rows."""

SHARE = 10
"""Minimum number of rows of a series per row of a default horizon."""

LEAST_SHARE, ENOUGH_SHARE = 4, 8
"""Minimum number of rows of a series per row of the horizon to train a model, and of a default horizon for that."""

UNTRAINED_SHARE = 3
"""Rows of a series per row of the default horizon of a forecast without training."""

LEAST_HORIZON, USUAL_STEPS = 4, 6
"""Minimum default horizon from a season, and default horizon of short series without one, in rows."""

MOST_COLUMNS = 12
"""Maximum number of columns searched for seasons."""


def plan(subject: Survey, settings: ForecastConfig, *, run_dir: Path) -> tuple[TrainConfig, list[Season], list[str]]:
    """Choose all settings that the user has not set.

    Args:
        subject: the data.
        settings: settings of the user.
        run_dir: run directory.

    Returns:
        The training configuration, the seasons of the targets, strongest first, and the decisions to report to the
        user.

    Raises:
        InputError: too few rows for the horizon, or no such column.
    """
    panel, dataset, notes = subject.panel, subject.dataset, []
    columns, frequency = targets_of(panel[0], settings.target, settings.future_covariates), panel[0].frequency
    rows, horizon = rows_and_horizon(subject, settings)
    if LEAST_SHARE * horizon > rows:
        raise InputError(
            f"horizon={horizon}: expected at most {rows // LEAST_SHARE} for {subject.name}, a quarter of the "
            f"{counted(rows, 'row')} of {'its median' if len(panel) > 1 else 'the'} series: training, "
            f"validation and test need rows for at least one forecast each; {WITHOUT_TRAINING}"
        )
    if dataset.split == SplitConfig():
        split = split_for(rows, horizon)
        if split != dataset.split:
            shares = f"{split.train:g}/{split.val:g}/{split.test:g}"
            notes.append(f"split {shares}, since {rows} rows are too few for the default")
        dataset = replace(dataset, split=split)
    notes += left_out(subject, columns)
    parts = [cut_rows(series.timestamps, series.frequency, dataset.split).clip(len(series)) for series in panel]
    # the rows of the test part may decide nothing
    before_test = [series.part(slice(part.test.start)) for series, part in zip(panel, parts, strict=True)]
    seasons = seasons_of(before_test, columns[-MOST_COLUMNS:])
    season = seasons[0].period if seasons else frequency.season
    tuned = None if settings.tune is None else tuning(settings.tune, rows, dataset.split)
    seq_len = lookback(rows, horizon, season) if tuned is None else tuned["seq_len"]
    sizes = WindowSizes(seq_len=seq_len, label_len=seq_len // 2, pred_len=horizon)
    short = [
        series.name
        for series, part in zip(panel, parts, strict=True)
        if shortage(part, len(series), dataset.split, sizes=sizes, name=series.name) is not None
    ]
    if dataset.short == "error" and short and (tuned or len(short) < len(panel)):
        dataset = replace(dataset, short="pad")
        notes.append(f"short=pad for {listed(short, 3)}, too short for the split")
    from informer.config.hydra_compose import compose  # Hydra is imported only where a model is trained

    train = compose({"dataset": "csv", **(tuned or {"model": settings.model or "linear"})})
    only = settings.target is not None and len(panel[0].columns) == 1
    chosen = replace(
        train,
        dataset=dataset,
        seq_len=seq_len,
        label_len=seq_len // 2,
        pred_len=horizon,
        target=settings.target,
        features="M" if settings.target is None or only else "MS",
        future_covariates=settings.future_covariates,
        seed=settings.seed,
        device=settings.device,
        run_dir=str(run_dir),
    )
    return check(chosen), seasons, notes


def rows_and_horizon(subject: Survey, settings: ForecastConfig) -> tuple[int, int]:
    """Rows of the median series, and the rows to forecast."""
    rows = sorted(map(len, subject.panel))[len(subject.panel) // 2]
    share = UNTRAINED_SHARE if settings.untrained else SHARE
    frequency, ahead = subject.panel[0].frequency, settings.ahead
    if ahead is not None:  # a day of a clock change is shorter or longer than the others, for which the model is too
        last = max(subject.panel, key=lambda series: series.timestamps[-1])
        return rows, max(frequency.rows_of(settings.horizon or 1), rows_ahead(last, settings, 0))
    horizon = usual_horizon(rows, frequency.season, share)
    if not settings.untrained and horizon * (LEAST_SHARE + 1) > rows:  # too many to train for
        horizon = max(rows // ENOUGH_SHARE, 1)
    return rows, horizon


def rows_ahead(series: Series, settings: ForecastConfig, horizon: int) -> int:
    """Rows to forecast after a series: those that the user asked for, or `horizon`."""
    return horizon if settings.ahead is None else series.frequency.rows_of(settings.ahead, series.timestamps)


def usual_horizon(rows: int, season: int, share: int = SHARE) -> int:
    """Default horizon: two seasons, or one, if at most a `share`-th of the rows and MOST_HORIZON, or one if at most a
    third of them; otherwise that `share`, but at least USUAL_STEPS or a third of the rows."""
    most = min(MOST_HORIZON, rows // share)
    for n, allowed in ((2 * season, most), (season, most), (season, min(MOST_HORIZON, rows // UNTRAINED_SHARE))):
        if LEAST_HORIZON <= n <= allowed:
            return n
    return max(most, min(USUAL_STEPS, rows // UNTRAINED_SHARE), 1)


def with_future(settings: ForecastConfig) -> tuple[ForecastConfig, list[str], list[str]]:
    """The settings, also of a file that continues with rows to forecast; the columns that may be known ahead, which are
    those that the user names, or those that have values there; and notes. The first of several files says how they
    are.

    If the last rows of a file have no target but values in other columns, these columns are known ahead, and these rows
    are the horizon.

    Raises:
        InputError: columns known ahead are named, but there are no values for the rows to forecast; or `future` has
            other columns than the history.
    """
    target, config = settings.target, replace(settings.dataset, target=settings.target)
    known, texts, notes = [*settings.future_covariates], list[str](), list[str]()
    files = list_files("input", settings.input or "", config.exclude_files) or [expanded(settings.input or "")]
    if settings.future is not None:
        ahead = list_files("future", settings.future) or [expanded(settings.future)]
        later = table_of_file(ahead[0], replace(settings.dataset, exclude=[]))
        known = known or [name for name in later.columns if later.frame[name].notna().any()]
    table: Table | None = None
    with suppress(InputError):  # reported with all other problems of the file
        if settings.future is not None:
            table = table_of_file(files[0], settings.dataset)
            key = config.series_col or series_column(table, settings.dataset)
            texts = categories_ahead(table, known, key, target)
        elif target and not config.keeps_gaps and ends_without(cells := read_table(files[0], config), target):
            columns, texts, rows = columns_ahead(prepared(cells, config), config, target, known)
            if columns and settings.ahead is None:
                settings = replace(settings, horizon=str(rows.min()))
                if rows.min() < rows.max():
                    fewest = f"{rows.idxmin()} has no more ({listed(columns, 3)}), another series has {rows.max()}"
                    notes.append(f"the horizon is {counted(rows.min(), 'row')}, since {fewest}")
            if columns and settings.model == "zero":
                return settings, [], notes
            if columns:
                known, settings = known or columns, replace(settings, future=settings.input)
    if table is not None:
        check_ahead(later, table, settings.future_covariates, config.time_col)
    if known and settings.future is None:
        raise InputError(
            "future_covariates: expected their values for the rows to forecast, in rows at the end without the "
            "target, or in future=FILE, found none"
        )
    categorical = without([*dict.fromkeys([*config.categorical, *texts])], [target or ""])
    return replace(settings, dataset=replace(settings.dataset, categorical=categorical)), known, notes


def notes_ahead(
    panel: Sequence[Series], futures: Sequence[Future], settings: ForecastConfig, config: DatasetConfig, horizon: int
) -> list[str]:
    """Notes on values known ahead, in the rows to forecast, that are far outside the history of all series.

    Raises:
        InputError: the columns do not reach to the end of the horizon.
    """
    names, ahead = settings.future_covariates, list[np.ndarray]()
    for series, future in zip(panel, futures, strict=True):
        ahead.append(future.at(future_index(series, rows_ahead(series, settings, horizon)), names))
    numeric = without(names, config.categorical)
    history = np.concatenate([column_values(series, numeric) for series in panel])
    return far_ahead(numeric, history, np.concatenate(ahead)[:, [*map(names.index, numeric)]])


def futures_ahead(
    subject: Survey, panel: Sequence[Series], settings: ForecastConfig
) -> tuple[list[Future], dict[str, Future]]:
    """The columns known ahead of each series, and of series without history; none without such columns.

    Raises:
        InputError: a series without them, text in columns of several files, or a model that needs a history.
    """
    if settings.future is None or settings.model == "zero":
        return [], {}
    config = subject.dataset
    texts = [name for name in settings.future_covariates if name in config.categorical]
    inputs = list_files("input", subject.path, config.exclude_files) or [expanded(subject.path)]
    if len(inputs) > 1 and texts:
        raise InputError(
            f"{listed(texts)}: expected numbers in columns known ahead of several files, found text; write all series "
            "into one file with a column of their names"
        )
    categories = CategoryReader()
    if texts:
        categories.coded(table_of_file(inputs[0], config), config)

    def read(path: Path) -> Futures:
        table = with_series_names(table_of_file(path, config), config.series_col)
        return futures_of_table(coded(table, categories.labels), config, settings.future_covariates)

    sources = name_sources(inputs, settings.future)
    by_path = {path: read(path) for path in dict.fromkeys(source.future for source in sources) if path}
    if len(by_path) == 1:
        (whole,) = by_path.values()
        names, allows_new = {series.name for series in subject.panel}, settings.untrained and not settings.sums
        return whole.of_all(panel, names, allows_new=allows_new)
    by_file = {source.name: by_path[source.future] for source in sources if source.future}
    if lacking := [series.name for series in panel if series.name not in by_file]:
        raise InputError(f"future={settings.future}: found no file of {listed(lacking, 3)}; write all into one file")
    return [by_file[series.name](series) for series in panel], {}


def left_out(subject: Survey, columns: Sequence[str]) -> Iterator[str]:
    """Notes on columns that are not used, and on rows at the end without a target."""
    yield from subject.warnings
    if subject.unused:
        words = f"{'column' if len(subject.unused) == 1 else 'columns'} {listed(subject.unused, 3)} not used"
        yield f"{words} ({shell_command('inspect', with_addresses(subject.path))} says how)"
    ends = np.stack(
        [np.isnan(column_values(series, columns))[::-1].cumprod(axis=0).sum(axis=0) for series in subject.panel]
    ).max(axis=0)
    if ends.any():
        lacking = listed([*compress(columns, ends)], 3)
        yield (
            f"the last {ends.max()} rows have no {lacking}: the forecast begins after them, "
            "as if the last value had lasted; to forecast these rows, end the file before them (what is known of them "
            "ahead goes into a second file, future=FILE)"
        )
