"""Settings of every command but train."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from informer.base.errors import InputError
from informer.base.runtime import device_problems
from informer.config.data import DatasetConfig, InputFormat, date_problems, span_problems
from informer.config.fields import Checked, setting, settings
from informer.config.model import WindowSizes
from informer.config.overrides import elements_of, to_display
from informer.networks.models.config import Decoding


def interval_problems(levels: Sequence[int]) -> Iterator[str]:
    """Problem of `intervals`: levels that are no percentages, or given twice."""
    if not all(level in range(1, 100) for level in levels) or len(set(levels)) < len(levels):
        shares = [level for level in levels if isinstance(level, float) and 0 < level < 1]
        cure = f"; {shares[0]:g} is {100 * shares[0]:g} percent" if shares else ""
        yield f"intervals: expected different whole percentages from 1 to 99, found {levels}{cure}"


def levels_of(intervals: int | Sequence[int]) -> list[int]:
    """Interval levels in percent, of one or several; an InputError if they are none."""
    levels = [intervals] if isinstance(intervals, int | float | str) else [*intervals]
    for problem in interval_problems(levels):
        raise InputError(problem)
    return [int(level) for level in levels]


@settings
class WithOutput(Checked):
    """A command with `output`, which must be new, or an empty folder."""

    overwrite: bool = setting(False, "Replace the results of an earlier call in output; its other files are kept.")


Format = Literal["csv", "parquet", "xlsx", "long"]
"""csv, parquet: one file per series, with the columns of the input. xlsx: a workbook with them and a chart. long: a CSV
with the columns series, time, column, y; the first two have their names from the input."""


@settings
class WithHorizon(Checked):
    """A command that forecasts from the end of data."""

    horizon: str | None = setting(None, "Rows to forecast, or a span such as 2weeks.", check=span_problems)
    until: str | None = setting(None, "Last date to forecast, instead of horizon.", check=date_problems)
    format: Format = setting("csv", "csv, parquet, xlsx: one file per series; long: a single table.")
    log: str | None = setting(
        None, "CSV file to which the rows of the forecasts are added, for informer score log=FILE.", is_path=True
    )

    @property
    def ahead(self) -> str | None:
        """How far to forecast: `horizon` or `until`, if any."""
        return self.horizon or self.until

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        yield from super().problems()
        if self.horizon is not None and self.until is not None:
            yield f"until: expected none with horizon={self.horizon}, which says how far too; leave one out"


PERIODS = {"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
"""Periods of `aggregate`, with pandas' aliases."""


def listed_names(value: Any) -> list[str]:
    """Names of `aggregate`: a single one as a list, and lists in a list as they are typed."""
    names = value if isinstance(value, list | tuple) else [value]
    return [to_display(each) if isinstance(each, list | tuple) else each for each in names]


@settings
class WithSums(Checked):
    """A command that adds up forecasts."""

    intervals: list[int] = setting(list, "Levels in percent; [80] adds OT_lo80, OT_hi80.", check=interval_problems)
    total: bool = setting(False, "Also write the sum over all series, with intervals, to totals.csv.")
    aggregate: Annotated[list[str], BeforeValidator(listed_names)] = setting(
        list,
        "Sums over series with the same cells in columns, and over a day, week, month, quarter or year: "
        "[region,month], or several such lists, [[region,month],[week]].",
    )
    above: list[float] = setting(list, "Numbers; for each, the probability in percent that a sum is above it.")
    paths: int | None = setting(None, "Number of sample paths to write to paths.parquet.", ge=10, le=100_000)

    @property
    def lists(self) -> list[list[str]]:
        """The lists of `aggregate`; without one all series and each step."""
        lists = [elements_of(each) for each in self.aggregate]
        flat = [each for each, inner in zip(self.aggregate, lists, strict=True) if inner is None]
        inner = [each for each in lists if each is not None]
        return [*([flat] if flat or (self.total and not inner) else []), *inner]

    @property
    def sums(self) -> bool:
        """Whether sums or paths are written."""
        return bool(self.lists) or self.paths is not None

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        yield from super().problems()
        for names in self.lists:
            if len(periods := [name for name in names if name in PERIODS]) > 1:
                several = ",".join(f"[{period}]" for period in periods)
                yield f"aggregate: expected one period in a list, found {' and '.join(periods)}; use lists, [{several}]"
        if self.above and not (self.total or self.aggregate):
            yield "above: only used with total=true or aggregate=[...], found neither"


@settings
class WithDevice(Checked):
    """A command that computes forecasts."""

    device: str = setting("auto", "auto, cpu, cuda, cuda:1 or mps.", check=device_problems)


@settings
class WithCheckpoint(Checked):
    """A command with a trained model."""

    checkpoint: str = setting("runs/latest", "A run directory or a model file.", is_path=True)


@settings
class ForecastConfig(WithHorizon, WithSums, WithOutput, WithDevice):
    """Forecast the rows that follow a file, and write a report on how far to trust them.

      informer forecast my.csv
      informer forecast my.csv target=sales horizon=48
      informer forecast FOLDER repair=auto      informer forecast s3://bucket/my.csv

    Reads the file, finds its series and seasons, forecasts them with the pretrained network, tests it on earlier rows,
    and writes forecasts/ with intervals and report.html into one folder. Files of a folder with the same columns and
    time step are series of one dataset and share a model; otherwise each file has its own.
    """

    input: str | None = setting(
        None, "File to forecast, or a folder or pattern of many files, also an address.",
        required="a file or folder to forecast, found none: informer forecast FILE.csv", is_address=True,
    )  # fmt: skip
    horizon: str | None = setting(
        None, "Rows to forecast, or a span such as 2weeks; null: two seasons, at most 96.", check=span_problems
    )
    target: str | None = setting(
        None, "Column to forecast, with all others as inputs; null: every numeric column.", is_name=True
    )
    future: str | None = setting(
        None, "Columns known ahead, for the rows to forecast: prices, promotions, a weather forecast.", is_address=True
    )
    future_covariates: list[str] = setting(list, "Columns that are known ahead; []: those of future.")
    repair: Literal["none", "auto"] = setting("none", "none: stop if the data need repairs; auto: repair them.")
    intervals: list[int] = setting(lambda: [80, 95], "Interval levels in percent.", check=interval_problems)
    plots: bool = setting(False, "Also draw the forecast of each file as a PNG, by matplotlib.")
    output: str | None = setting(None, "Folder for all results; null: runs/<time>_<file>.", is_path=True)
    model: str | None = setting(
        None, "zero: only the pretrained network; another option of train's model: trained on the file."
    )
    tune: float | None = setting(
        None, "Minutes of computing in which the pretrained network is first trained on the file.", gt=0
    )
    seed: int = setting(0, "Seed of all random numbers.")
    dataset: DatasetConfig = setting(DatasetConfig)

    @property
    def untrained(self) -> bool:
        """Whether the pretrained network forecasts as it is, with effects of columns known ahead or without."""
        return self.model in (None, "zero") and self.tune is None

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        yield from super().problems()
        if self.dataset.path is not None:
            yield f"dataset.path: expected none, found {self.dataset.path}; the file is given without a key"
        if self.tune and self.model not in (None, "zero"):
            yield f"tune: trains the pretrained network, found model={self.model}; leave out one of them"
        for name in ("future", "future_covariates"):
            if getattr(self, name) and (self.model == "zero" or self.tune):
                other = "tune" if self.tune else "model=zero"
                yield f"{name}: {other} reads no columns known ahead; leave out one of them"


@settings
class LeaderboardConfig(WithDevice):
    """Compare forecasters on the earlier rows of a file: MASE, quantile loss, coverage of 80 % intervals, CPU seconds.

      informer leaderboard my.csv
      informer leaderboard my.csv horizon=24 models=[zero,theta,naive,linear,informer,ets,lightgbm]

    Each forecasts the same rows from the same earlier ones, up to ten times for each series, a horizon apart. The best
    is named, or those that cannot be told apart. ets and arima need statsforecast, lightgbm needs mlforecast and
    lightgbm. linear, informer and other options of train's model are trained on the rows before the first forecast.
    """

    input: str | None = setting(
        None, "File with the series.", required="a file, found none: informer leaderboard FILE.csv", is_address=True
    )
    models: list[str] = setting(
        lambda: ["zero", "theta", "naive", "linear"], "What is compared: zero, theta, naive, ets, arima, lightgbm, "
        "or options of train's model.",
    )  # fmt: skip
    horizon: str | None = setting(
        None, "Rows of each forecast, or a span such as 2weeks; null: as of forecast.", check=span_problems
    )
    target: str | None = setting(None, "Column to forecast; null: every numeric column.", is_name=True)
    future_covariates: list[str] = setting(list, "Columns known ahead; []: those in rows at the end without a target.")
    dataset: DatasetConfig = setting(DatasetConfig)


def _plots(value: Any) -> Any:
    """false and true mean none and standard."""
    return {False: "none", True: "standard"}[value] if isinstance(value, bool) else value


@settings
class EvalDataset(InputFormat):
    """Location and format of the training data, if they have changed; without a path the file of the training run is
    read, and refused if it has changed."""

    path: str | None = setting(None, "The training data, if they have moved.", is_address=True)


@settings
class EvalModel(Checked):
    """Settings of the model that may differ from training, with the same weights; null: as in training."""

    decoding: Decoding | None = setting(None, "Decoding, if different from training.")
    offset: int | None = setting(None, "Rows between start token and horizon, if different from training.")


@settings
class EvalConfig(WithCheckpoint, WithOutput, WithDevice):
    """Score a trained model and two baselines on the test part of its data.

    informer eval runs/latest
    """

    output: str | None = setting(
        None, "Folder of metrics.json, metrics.csv; null: eval next to the checkpoint.", is_path=True
    )
    dataset: EvalDataset = setting(EvalDataset)
    data_dir: str | None = setting(
        None, "Folder of the datasets' files; null: as in training.", is_path=True, environment="INFORMER_DATA_DIR"
    )
    model: EvalModel = setting(EvalModel)
    batch_size: int = setting(256, "Windows per batch.", ge=1)
    plots: Annotated[Literal["none", "standard", "attention"], BeforeValidator(_plots)] = setting(
        "none", "Pictures by matplotlib: none, standard (error by step), attention (also every layer)."
    )


@settings
class PredictConfig(WithCheckpoint, WithHorizon, WithSums, WithOutput, WithDevice):
    """Forecast the rows after the end of a file, or of each of many files, with a trained model.

      informer predict runs/latest FILE.csv output=DIR
      informer predict checkpoint=runs/latest input='in/*.csv' output=DIR
      informer predict checkpoint=runs/latest input=FILE.csv output=DIR mode=rolling stride=24

    A horizon beyond pred_len feeds forecasts back into the model and marks those rows.
    """

    input: str | None = setting(
        None, "File, folder or pattern with the columns of training and at least seq_len rows, or an address.",
        required="a file or folder to forecast, found none; set input=FILE.csv", is_address=True,
    )  # fmt: skip
    future: str | None = setting(
        None, "Future covariates: one file, or one per input; null: rows at the end without target.", is_address=True
    )
    output: str = setting("forecasts", "Folder of FILE.forecast.csv.", is_path=True)
    dataset: InputFormat = setting(InputFormat)
    mode: Literal["ahead", "rolling"] = setting(
        "ahead", "ahead: after the end; rolling: from origins throughout the file, with errors."
    )
    stride: int | None = setting(None, "Rows between origins of mode=rolling; null: pred_len.", ge=1)
    from_date: str | None = setting(
        None, "First forecast time of mode=rolling; null: after the rows used in training.", alias="from"
    )
    horizon: str | None = setting(
        None, "Rows to forecast, or a span such as 1day; null: pred_len.", check=span_problems
    )
    adaptive: bool = setting(False, "Of mode=rolling: adapt intervals to their coverage at earlier origins.")
    digits: int | None = setting(
        7, "Digits of numbers in text, relative to the deviation of the column; null: all.", ge=1
    )
    batch_size: int = setting(64, "Files per batch.", ge=1)
    resume: bool = setting(False, "Skip files that the same job has finished, if they have not changed since.")
    engine: Literal["local", "ray"] = setting("local", "local: in this process; ray: on the cluster at RAY_ADDRESS.")
    workers: int | None = setting(None, "Number of actors of engine=ray; null: one per CPU or GPU.", ge=1)
    plots: bool = setting(False, "Draw each forecast as a PNG, by matplotlib.")
    plot_series: list[str] = setting(list, "Plot only these: series of a file, or files of many.")

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        yield from super().problems()
        if self.workers is not None and self.engine != "ray":
            yield f"workers: only used with engine=ray, found workers={self.workers}"
        if self.sums and self.engine == "ray":
            yield "total, aggregate, paths: not supported with engine=ray; leave them out"
        if self.log and (self.mode == "rolling" or self.engine == "ray"):
            yield "log: not supported with mode=rolling or engine=ray; leave it out"
        if self.plot_series and self.plots:
            yield "plots: expected none with plot_series, which says what is drawn; leave one out"
        if self.resume and self.overwrite:
            yield "overwrite: expected false with resume, which keeps finished forecasts; leave one out"
        if self.resume and self.format == "long":
            yield "resume: expected format=csv or parquet; format=long is a single file, written at the end"
        if self.mode == "ahead":
            only = {"stride": self.stride, "from": self.from_date, "adaptive": "true" if self.adaptive else None}
            for name, value in only.items():
                if value:
                    yield f"{name}: only used with mode=rolling, found {name}={value}"
            return
        if self.until:
            yield "until: not supported with mode=rolling, which forecasts from many origins; set horizon"
        if self.future:
            yield (
                "future: not supported with mode=rolling, which reads future covariates in the file itself; leave it "
                "out"
            )
        for name in ("plots", "plot_series"):
            if getattr(self, name):
                yield f"{name}: not supported with mode=rolling, which draws nothing; leave it out"
        if self.sums:
            yield "total, aggregate, paths: not supported with mode=rolling; leave them out"
        if self.adaptive and not self.intervals:
            yield "adaptive: expected levels whose widths are adapted; set intervals=[80,95]"
        if self.format not in ("csv", "parquet"):
            yield f"format: expected csv or parquet with mode=rolling, found {self.format}"


@settings
class ExplainConfig(WithCheckpoint, WithOutput, WithDevice):
    """Why this forecast: the forecast as a sum of sources (level, season, recent rows, each covariate and holiday).

    informer explain runs/latest input=FILE.csv
    informer explain runs/latest input=FILE.csv future=prices.csv 'set=[price=+10%]'
    informer explain runs/latest input=today.csv against=yesterday.csv
    informer explain runs/latest importance=true
    informer explain FILE.csv checkpoint=zero target=sales future=next.csv
    """

    checkpoint: str = setting(
        "runs/latest", "A run directory, a model file, or zero: the pretrained network.", is_path=True
    )
    target: str | None = setting(None, "With zero: the column to forecast; null: all that are not known ahead.")
    input: str | None = setting(
        None, "The file whose forecast is explained, or many; null: the data of training.", is_path=True
    )
    future: str | None = setting(None, "Future covariates of the forecast period, as for predict.", is_path=True)
    what_if: str | None = setting(None, "Other future covariates: both forecasts and their difference.", is_path=True)
    set: list[str] = setting(list, "Changes of columns known ahead: price=+10%, price=-2 (added), promo=1 (the value).")
    against: str | None = setting(None, "Other history, such as yesterday's: the difference to it.", is_path=True)
    horizon: str | None = setting(
        None, "Rows to forecast, or a span such as 1day; null: pred_len.", check=span_problems
    )
    importance: bool = setting(
        False, "Instead: how much the error on the test part grows if a column is read from other windows."
    )
    output: str | None = setting(
        None, "Folder of explanation.csv and report.html; null: explanation next to the checkpoint.", is_path=True
    )
    dataset: InputFormat = setting(InputFormat)

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        if self.against and (self.what_if or self.set):
            yield "against: expected none with what_if or set, which ask for another difference; leave it out"
        for name in ("future", "what_if", "set", "against", "horizon") if self.importance else ():
            if getattr(self, name):
                yield f"{name}: expected none with importance=true, which forecasts the test part; leave it out"
        if self.target and self.checkpoint != "zero":
            yield "target: expected none, since the model has its own; leave it out"
        if self.importance and self.checkpoint == "zero":
            yield "importance: expected a trained model, since the pretrained network has no test part"


ExportFormat = Literal["safetensors", "onnx", "torch_export"]


@settings
class ExportConfig(WithCheckpoint, WithOutput):
    """Export a trained model for other programs, with a description of its inputs, columns and scaler.

    informer export checkpoint=runs/latest format=onnx
    """

    format: ExportFormat = setting(
        "safetensors", "safetensors: all that the model needs; onnx, torch_export: the network as a graph."
    )
    output: str | None = setting(None, "File to write; null: next to the checkpoint.", is_path=True)


@settings
class InspectConfig(Checked):
    """Show what a file contains, its problems, and how to train on it; exit status 2 if there are problems.

    informer inspect FILE
    informer inspect FILE dataset.fill=linear dataset.sort=true
    informer inspect FOLDER      informer inspect 'in/*.csv'
    """

    input: str | None = setting(
        None, "File to inspect, or a folder or pattern of many files, also an address.",
        required="a file, found none: informer inspect FILE.csv", is_address=True,
    )  # fmt: skip
    dataset: DatasetConfig = setting(DatasetConfig)
    seq_len: int = setting(96, "Rows of the lookback window; each part of the data needs at least one window.")
    label_len: int = setting(48, "Rows of the start token.")
    pred_len: int = setting(24, "Rows of the horizon.")
    target: str | None = setting(None, "Column to forecast, used in the suggested commands.", is_name=True)

    @property
    def sizes(self) -> WindowSizes:
        """Lookback window, start token and horizon."""
        return WindowSizes(seq_len=self.seq_len, label_len=self.label_len, pred_len=self.pred_len)

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        try:
            self.sizes  # noqa: B018 (its constructor checks the lengths)
        except InputError as error:
            yield str(error)


@settings
class ServeConfig(WithDevice):
    """Serve forecasts over HTTP until Ctrl-C or SIGTERM; needs pip install fastapi uvicorn prometheus-client.

      informer serve                          the pretrained network
      informer serve checkpoint=runs/latest   a trained model, and the pretrained network as model=zero
      curl --data-binary @my.csv -H 'Content-Type: text/csv' 'http://127.0.0.1:8000/forecast?intervals=80,95'

    POST /forecast takes a CSV or JSON table and returns forecasts for the rows after its end. GET / is a page to try
    it, /describe lists what the models need, /health and /ready report whether it works and takes requests, /metrics
    has counters for Prometheus, /openapi.json describes the API. Standard error has a line of JSON for each request.
    The service writes no files, and requests cannot name files.
    """

    checkpoint: str | None = setting(
        None, "Run or model file that is used by default; null: the pretrained network.", is_path=True
    )
    models: list[str] = setting(list, "Further models by name: [shops=runs/shops,load=runs/load].")
    workers: int = setting(2, "Threads that read tables and forecast.", ge=1, le=64)
    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0: every address of the machine.")
    port: int = setting(8000, "Port to listen on; 0: any free port, printed at the start.", ge=0, le=65535)
    dataset: InputFormat = setting(InputFormat)
    hosts: list[str] = setting(list, "Further names of the service in the Host header of requests.")
    timeout: float = setting(30.0, "Seconds from the first byte of a request to its answer.", gt=0, le=1_000_000)
    max_mb: float = setting(10.0, "Maximum size of a request's body in MB.", gt=0, le=1_000_000)
    max_columns: int = setting(1000, "Maximum number of columns, besides those that the model reads.", ge=1)
    max_cells: int = setting(1_000_000, "Maximum number of cells; separators inside text count as well.", ge=1)
    max_series: int = setting(1000, "Maximum number of series in a request.", ge=1)
    max_horizon: int = setting(1000, "Maximum number of rows to forecast.", ge=1)
    max_values: int = setting(500_000, "Maximum of series x rows to forecast x columns that the model reads.", ge=1)
    max_requests: int = setting(128, "Maximum number of requests in progress; others are refused (503).", ge=1)


@settings
class McpConfig(Checked):
    """Serve inspect, forecast and score as tools of an assistant, over the Model Context Protocol (standard input and
    output).

      informer mcp folder=DATA

    An assistant starts it; the settings of most are {"mcpServers": {"informer": {"command": "informer", "args":
    ["mcp"]}}}
    """

    folder: str = setting(".", "Folder that the tools read and write; paths that lead out are refused.", is_path=True)


@settings
class ReportConfig(WithOutput):
    """Write one HTML page about a run, an evaluation or forecasts; it works offline.

    informer report runs/latest
    informer report forecasts history=FILE.csv actuals=LATER.csv
    """

    input: str = setting(
        "runs/latest", "A run, a model file, an evaluation, or forecasts, also an address.", is_address=True
    )
    output: str | None = setting(None, "HTML file to write; null: report.html in or next to the input.", is_path=True)
    history: str | None = setting(None, "For forecasts: file with the values before them.", is_address=True)
    actuals: str | None = setting(None, "For forecasts: file with actual values, if known.", is_address=True)
    dataset: InputFormat = setting(InputFormat)


@settings
class CompareConfig(Checked):
    """Compare finished runs: a table sorted by skill, and the differences in their configuration.

    informer compare runs/*
    informer compare runs/a runs/b
    """

    runs: list[str] = setting(
        list, "Run directories, also without a key.", required="run directories, found none: informer compare runs/*"
    )


@settings
class ScoreConfig(WithOutput):
    """Score a forecast file from any program, compared with baselines computed from the history.

    informer score forecasts=FILE.csv actuals=LATER.csv history=FILE.csv
    informer score log=FILE actuals=LATER.csv
    """

    forecasts: str | None = setting(
        None, "Long (series, time, y), wide (a column per target), or a row per series.", is_path=True
    )
    log: str | None = setting(None, "Log of forecasts instead, see log of informer predict.", is_path=True)
    actuals: str | None = setting(
        None, "File of actual values, long or wide.", required="a file, found none; set actuals=FILE.csv", is_path=True
    )
    history: str | None = setting(None, "File of earlier values, for the baselines, MASE and OWA.", is_path=True)
    season: int | None = setting(None, "Rows per season; null: from the step, 24 for hours, 12 for months.", ge=1)
    output: str | None = setting(None, "Folder for scores.json and scores.csv; null: only print.", is_path=True)
    dataset: InputFormat = setting(InputFormat)

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        if self.forecasts and self.log:
            yield "log: expected none with forecasts, which are scored; leave one out"
        elif not (self.forecasts or self.log):
            yield "forecasts: expected a file, found none; set forecasts=FILE.csv"
        if not (self.history or self.log):
            yield "history: expected a file, found none; set history=FILE.csv"


@settings
class WatchConfig(WithOutput):
    """Compare logged forecasts with the actual values since, and recommend what to do.

      informer predict checkpoint=RUN input=today.csv log=forecasts.log.csv     every day
      informer watch log=forecasts.log.csv actuals=today.csv

    Exit status: 0 ok, 10 recalibrate, 12 retrain, 2 an error.
    """

    log: str | None = setting(
        None, "Log of forecasts, see log of informer predict.",
        required="a log of forecasts, found none; set log=FILE.csv", is_path=True,
    )  # fmt: skip
    actuals: str | None = setting(
        None, "File of actual values, long or wide; it may have more.",
        required="a file, found none; set actuals=FILE.csv", is_path=True,
    )  # fmt: skip
    history: str | None = setting(None, "File of earlier values, for the baselines; null: actuals.", is_path=True)
    season: int | None = setting(None, "Rows per season; null: from the step, 24 for hours, 12 for months.", ge=1)
    output: str | None = setting(None, "Folder for watch.json; null: only print.", is_path=True)
    dataset: InputFormat = setting(InputFormat)
