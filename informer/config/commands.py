"""Settings of every command but train."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from informer.base.errors import InputError
from informer.base.runtime import device_problems
from informer.config.data import DatasetConfig, InputFormat, Place, date_problems, optional_settings, span_problems
from informer.config.fields import Checked, setting
from informer.config.model import Decoding, WindowSizes


class EngineName(Enum):
    """local: in this process. ray: by actors of the Ray cluster at RAY_ADDRESS, or of a local cluster."""

    local = "local"
    ray = "ray"


def workers_problems(engine: EngineName, workers: int | None) -> Iterator[str]:
    """Problem of `workers` without an engine that has any."""
    if workers is not None and engine is not EngineName.ray:
        yield f"workers: only used with engine=ray, found workers={workers}"


def interval_problems(levels: Sequence[int]) -> Iterator[str]:
    """Problem of `intervals`: levels that are no percentages, or given twice."""
    if not all(1 <= level <= 99 for level in levels) or len(set(levels)) < len(levels):
        yield f"intervals: expected different whole percentages from 1 to 99, found {levels}"


@dataclass(kw_only=True)  # without slots, so that a command can have several of these bases
class WithOutput(Checked):
    """A command with `output`, which must be new, or an empty folder."""

    overwrite: bool = False
    """Replace the results of an earlier call in `output`; its other files are kept."""


@dataclass(kw_only=True)
class WithHorizon(Checked):
    """A command that forecasts from the end of data."""

    horizon: str | None = setting(check=span_problems)
    """Rows to forecast, or a span such as 2weeks."""
    until: str | None = setting(check=date_problems)
    """Last date to forecast, instead of `horizon`."""
    log: str | None = setting(is_path=True)
    """CSV file to which the rows of the forecasts are added, for `informer score log=`."""

    @property
    def ahead(self) -> str | None:
        """How far to forecast: `horizon` or `until`, if any."""
        return self.horizon or self.until

    def _horizon_problems(self) -> Iterator[str]:
        if self.horizon is not None and self.until is not None:
            yield f"until: expected none with horizon={self.horizon}, which says how far too; leave one out"


@dataclass(kw_only=True)
class WithDevice(Checked):
    """A command that computes forecasts."""

    device: str = setting("auto", check=device_problems)
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""


@dataclass(kw_only=True)
class WithCheckpoint(Checked):
    """A command with a trained model."""

    checkpoint: str = setting("runs/latest", is_path=True)
    """A run directory or a checkpoint file."""


PERIODS = {"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
"""Periods of `aggregate`, with pandas' aliases."""


class RepairMode(Enum):
    """What to do about problems in the data that a repair would solve."""

    none = "none"
    """Report them, with the settings that would repair them, and stop."""
    auto = "auto"
    """Repair them, and log what was changed."""


@dataclass(kw_only=True, slots=True)
class ForecastConfig(WithHorizon, WithOutput, WithDevice):
    """`informer forecast FILE`."""

    input: str | None = setting(
        required="a file or folder to forecast, found none: informer forecast FILE.csv", is_address=True
    )
    """The file to forecast, or a folder or pattern of many files."""
    horizon: str | None = setting(check=span_problems)
    """Rows to forecast, or a span such as 2weeks; null: two seasons (48 hours, 14 days, ...), one if the data are
    short, 6 rows or more without a season, and at most 96."""
    target: str | None = setting(is_name=True)
    """Column to forecast, with all others as inputs; null: forecast every numeric column."""
    future: str | None = setting(is_address=True)
    """Columns known ahead, for the rows to forecast: a file, or a folder or pattern with one of the same name per
    input. Not needed if the input continues with these rows, without `target`."""
    future_covariates: list[str] = setting(list)
    """Columns that are known ahead; empty: those of `future` that are not empty and that the data have too."""
    repair: RepairMode = RepairMode.none
    """none: stop if the data need repairs; auto: repair them."""
    intervals: list[int] = setting(lambda: [80, 95], check=interval_problems)
    """Interval levels in percent."""
    total: bool = False
    """Also write the sum over all series (or columns of a single one), with intervals for the sum, to totals.csv."""
    aggregate: list[str] = setting(list)
    """Also write sums over the series with the same cells in these columns (region) and over one of the periods day,
    week, month, quarter, year, to totals.csv."""
    above: list[float] = setting(list)
    """Numbers; for each, the probability in percent that a sum is above it."""
    paths: int | None = setting(least=10, most=100_000)
    """Number of sample paths of all series together to write to paths.parquet."""
    output: str | None = setting(is_path=True)
    """Folder for all results; null: runs/<time>_<file>."""
    model: str | None = None
    """zero: the pretrained network alone. Or another option of training's `model`, which is trained on the file. null:
    the pretrained network, with effects of columns that are known ahead."""
    plots: bool = False
    """Also draw the forecast of each file as a PNG, by matplotlib."""
    seed: int = 0
    """Seed of all random numbers."""
    dataset: DatasetConfig = setting(DatasetConfig)
    """Format of the file, repairs and split, as far as they should not be detected."""

    @property
    def untrained(self) -> bool:
        """Whether the pretrained network forecasts as it is, with effects of columns known ahead or without."""
        return self.model in (None, "zero")

    @property
    def sums(self) -> bool:
        """Whether sums or paths are written."""
        return self.total or bool(self.aggregate) or self.paths is not None

    def _joint_problems(self) -> Iterator[str]:
        yield from self._horizon_problems()
        if len(periods := [name for name in self.aggregate if name in PERIODS]) > 1:
            yield f"aggregate: expected one period, found {' and '.join(periods)}; leave one out"
        if self.above and not (self.total or self.aggregate):
            yield "above: only used with total=true or aggregate=[...], found neither"
        if self.dataset.path is not None:
            yield f"dataset.path: expected none, found {self.dataset.path}; the file is given without a key"
        if self.future is not None and self.model == "zero":
            yield "future: model=zero reads no columns known ahead; leave out one of them"


class Plots(Enum):
    """Plots of an evaluation; false and true mean none and standard."""

    none = "none"
    standard = "standard"
    """Error by step."""
    attention = "attention"
    """Also the attention of every layer and head."""
    false = none
    true = standard


@dataclass(kw_only=True, slots=True)
class EvalDataset(optional_settings(InputFormat, place=Place.own)):  # type: ignore[misc]
    """Location and format of the training data, if they have changed; null: as in training.

    Without a path the file of the training run is read, and refused if it has changed.
    """


@dataclass(kw_only=True, slots=True)
class EvalModel(Checked):
    """Settings of the model that may differ from training, with the same weights; null: as in training."""

    decoding: Decoding | None = None
    offset: int | None = None
    """Rows between the start token and the horizon."""


@dataclass(kw_only=True, slots=True)
class EvalConfig(WithCheckpoint, WithOutput, WithDevice):
    """`python -m informer.eval`."""

    output: str | None = setting(is_path=True)
    """Folder of the report; null: `eval` next to the checkpoint."""
    dataset: EvalDataset = setting(EvalDataset)
    data_dir: str | None = setting(is_path=True, environment="INFORMER_DATA_DIR")
    """Folder of the datasets' files; null: as in training."""
    model: EvalModel = setting(EvalModel)
    """Settings that may differ from training."""
    batch_size: int = setting(256, least=1)
    plots: str = "none"
    """Pictures by matplotlib: one of none, standard, attention; false and true mean none and standard."""

    @property
    def pictures(self) -> Plots:
        """The plots to make."""
        return Plots[self.plots.lower()]

    def _joint_problems(self) -> Iterator[str]:
        if self.plots.lower() not in Plots.__members__:
            yield f"plots: expected one of {', '.join(Plots.__members__)}, found {self.plots!r}"


class Mode(Enum):
    """ahead: forecast after the end of each file. rolling: from origins throughout the file, with the actual values."""

    ahead = "ahead"
    rolling = "rolling"


class Format(Enum):
    """csv, parquet: one file per series, with the columns of the input. long: one CSV with the columns series, time,
    column, y; the first two have their names from the input."""

    csv = "csv"
    parquet = "parquet"
    long = "long"


@dataclass(kw_only=True, slots=True)
class PredictConfig(WithCheckpoint, WithHorizon, WithOutput, WithDevice):
    """`python -m informer.predict`."""

    input: str | None = setting(
        required="a file or folder to forecast, found none; set input=FILE.csv", is_address=True
    )
    """The file to forecast, or a folder or pattern of many files."""
    future: str | None = setting(is_address=True)
    """Future covariates of the forecast period: one file for all inputs, or a folder or pattern with one file of the
    same name per input; null: the rows at the end of each input that have no target."""
    output: str = setting("forecasts", is_path=True)
    """Folder for the forecasts."""
    dataset: InputFormat = setting(InputFormat)
    """Format of the files, if different from the training data."""
    mode: Mode = Mode.ahead
    stride: int | None = setting(least=1)
    """Rows between origins of mode=rolling; null: pred_len."""
    from_date: str | None = None
    """First forecast time of mode=rolling, written from=DATE; null: after the rows used in training."""
    horizon: str | None = setting(check=span_problems)
    """Rows to forecast (from every origin with mode=rolling), or a span such as 1day; null: pred_len. Rows beyond
    pred_len are forecast from the model's own output and are marked."""
    intervals: list[int] = setting(list, check=interval_problems)
    """Interval levels in percent; each adds columns such as OT_lo80 and OT_hi80."""
    adaptive: bool = False
    """With mode=rolling: adapt the widths of intervals to their coverage at earlier origins."""
    format: Format = Format.csv
    digits: int | None = setting(7, least=1)
    """Digits of numbers in text files, relative to the standard deviation of the column's history; null: all."""
    batch_size: int = setting(64, least=1)
    """Files per batch."""
    resume: bool = False
    """Skip files that an earlier run of the same job has finished, if they have not changed since."""
    engine: EngineName = EngineName.local
    workers: int | None = setting(least=1)
    """Number of actors with engine=ray; null: one per CPU of the cluster, or per GPU with device=cuda."""
    plots: bool = False
    """Draw each forecast as a PNG, by matplotlib."""
    plot_series: list[str] = setting(list)
    """Plot only these: series of a single input file, or files of many, one picture each."""

    def _joint_problems(self) -> Iterator[str]:
        yield from workers_problems(self.engine, self.workers)
        yield from self._horizon_problems()
        if self.log and (self.mode is Mode.rolling or self.engine is EngineName.ray):
            yield "log: not supported with mode=rolling or engine=ray; leave it out"
        if self.plot_series and self.plots:
            yield "plots: expected none with plot_series, which says what is drawn; leave one out"
        if self.resume and self.overwrite:
            yield "overwrite: expected false with resume, which keeps finished forecasts; leave one out"
        if self.resume and self.format is Format.long:
            yield "resume: expected format=csv or parquet; format=long is a single file, written at the end"
        if self.mode is Mode.ahead:
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
        if self.adaptive and not self.intervals:
            yield "adaptive: expected levels whose widths are adapted; set intervals=[80,95]"
        if self.format not in (Format.csv, Format.parquet):
            yield f"format: expected csv or parquet with mode=rolling, found {self.format.value}"


@dataclass(kw_only=True, slots=True)
class ExplainConfig(WithCheckpoint, WithOutput, WithDevice):
    """`informer explain RUN`."""

    input: str | None = setting(is_path=True)
    """The file whose forecast is explained, or a folder or pattern of many files; null: the data of training."""
    future: str | None = setting(is_path=True)
    """Future covariates of the forecast period, see `PredictConfig`."""
    what_if: str | None = setting(is_path=True)
    """Other future covariates; the difference between the two forecasts is written too."""
    set: list[str] = setting(list)
    """Changes of columns in `future` (or in `what_if`) instead: price=+10%, price=-2 (added), promo=1 (the value)."""
    against: str | None = setting(is_path=True)
    """Other history, such as yesterday's file; the difference to its forecast is written for times that both have."""
    horizon: str | None = setting(check=span_problems)
    """Rows to forecast, or a span such as 1day; null: pred_len."""
    importance: bool = False
    """Instead of a forecast: how much the error on the test part grows if a column is read from other windows; `input`
    is then the data of training."""
    output: str | None = setting(is_path=True)
    """Folder of explanation.csv and report.html; null: `explanation` next to the checkpoint."""
    dataset: InputFormat = setting(InputFormat)
    """Format of the files, if different from the training data."""

    def _joint_problems(self) -> Iterator[str]:
        if self.against and (self.what_if or self.set):
            yield "against: expected none with what_if or set, which ask for another difference; leave it out"
        for name in ("future", "what_if", "set", "against", "horizon") if self.importance else ():
            if getattr(self, name):
                yield f"{name}: expected none with importance=true, which forecasts the test part; leave it out"


class ExportFormat(Enum):
    """safetensors: the model file itself. onnx, torch_export: the network as a graph."""

    safetensors = "safetensors"
    onnx = "onnx"
    torch_export = "torch_export"


@dataclass(kw_only=True, slots=True)
class ExportConfig(WithCheckpoint, WithOutput):
    """`informer export`."""

    format: ExportFormat = ExportFormat.safetensors
    output: str | None = setting(is_path=True)
    """File to write; null: next to the checkpoint."""


@dataclass(kw_only=True, slots=True)
class InspectConfig(Checked):
    """`informer inspect`."""

    input: str | None = setting(required="a file, found none: informer inspect FILE.csv", is_address=True)
    """The file to inspect, or a folder or pattern of many files."""
    dataset: DatasetConfig = setting(DatasetConfig)
    """Format of the file, repairs and split."""
    seq_len: int = 96
    label_len: int = 48
    pred_len: int = 24
    target: str | None = setting(is_name=True)
    """Column to forecast, used in the suggested commands."""

    @property
    def sizes(self) -> WindowSizes:
        """Lookback window, start token and horizon."""
        return WindowSizes(seq_len=self.seq_len, label_len=self.label_len, pred_len=self.pred_len)

    def _joint_problems(self) -> Iterator[str]:
        try:
            self.sizes  # noqa: B018 (its constructor checks the lengths)
        except InputError as error:
            yield str(error)


@dataclass(kw_only=True, slots=True)
class ServeConfig(WithCheckpoint, WithDevice):
    """`informer serve checkpoint=RUN`."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 means every address of the machine."""
    port: int = setting(8000, least=0, most=65535)
    """Port to listen on; 0: any free port, printed at the start."""
    dataset: InputFormat = setting(InputFormat)
    """Format of the tables in requests, if different from the training data."""
    hosts: list[str] = setting(list)
    """Names of the service in the Host header of requests, besides localhost, 127.0.0.1, [::1] and `host`."""
    timeout: float = setting(30.0, above=0, most=1_000_000)
    """Seconds from the first byte of a request to its answer."""
    max_mb: float = setting(10.0, above=0, most=1_000_000)
    """Maximum size of a request's body in MB."""
    max_columns: int = setting(1000, least=1)
    """Maximum number of columns of a table, besides those that the model reads."""
    max_cells: int = setting(1_000_000, least=1)
    """Maximum number of cells of a table; separators inside text count as well."""
    max_series: int = setting(1000, least=1)
    """Maximum number of series in a request."""
    max_horizon: int = setting(1000, least=1)
    """Maximum number of rows to forecast."""
    max_values: int = setting(500_000, least=1)
    """Maximum number of values to forecast: series x rows x columns that the model reads."""
    max_requests: int = setting(128, least=1)
    """Maximum number of requests in progress; further ones are refused at once."""


@dataclass(kw_only=True, slots=True)
class McpConfig(Checked):
    """`informer mcp`."""

    folder: str = setting(".", is_path=True)
    """Folder that the tools read and write; paths are relative to it, and those that lead out of it are refused."""


@dataclass(kw_only=True, slots=True)
class ReportConfig(WithOutput):
    """`informer report runs/latest`."""

    input: str = setting("runs/latest", is_address=True)
    """A run directory, a checkpoint file, the folder of an evaluation, or a file or folder of forecasts."""
    output: str | None = setting(is_path=True)
    """HTML file to write; null: report.html in the input folder, or next to the input file."""
    history: str | None = setting(is_address=True)
    """For forecasts: file with the values before them; null: the file named in their summary, if it exists."""
    actuals: str | None = setting(is_address=True)
    """For forecasts: file with actual values, if known."""
    dataset: InputFormat = setting(InputFormat)
    """For forecasts: format of these files, if it should not be detected."""


@dataclass(kw_only=True, slots=True)
class CompareConfig(Checked):
    """`informer compare runs/*`."""

    runs: list[str] = setting(list, required="run directories, found none: informer compare runs/*")
    """Run directories."""


@dataclass(kw_only=True, slots=True)
class ScoreConfig(WithOutput):
    """`informer score forecasts=FILE actuals=FILE history=FILE`, or `informer score log=FILE actuals=FILE`."""

    forecasts: str | None = setting(is_path=True)
    """File of forecasts, long or wide."""
    log: str | None = setting(is_path=True)
    """Log of forecasts instead, see `log` of `informer predict`."""
    actuals: str | None = setting(required="a file, found none; set actuals=FILE.csv", is_path=True)
    """File of actual values, long or wide."""
    history: str | None = setting(is_path=True)
    """File of earlier values, for the baselines, MASE and OWA; missing cells and rows keep their places. With `log` the
    file of actual values by default."""
    season: int | None = setting(least=1)
    """Rows per season; null: derived from the time step of the history."""
    output: str | None = setting(is_path=True)
    """Folder for scores.json and scores.csv; null: only print the table."""
    dataset: InputFormat = setting(InputFormat)
    """Format of the files, as far as it should not be detected."""

    def _joint_problems(self) -> Iterator[str]:
        if self.forecasts and self.log:
            yield "log: expected none with forecasts, which are scored; leave one out"
        elif not (self.forecasts or self.log):
            yield "forecasts: expected a file, found none; set forecasts=FILE.csv"
        if not (self.history or self.log):
            yield "history: expected a file, found none; set history=FILE.csv"


@dataclass(kw_only=True, slots=True)
class WatchConfig(WithCheckpoint, WithOutput, WithDevice):
    """`informer watch checkpoint=RUN input=FILE`."""

    input: str | None = setting(
        required="a file with rows since training, found none; set input=FILE.csv", is_path=True
    )
    """File with the rows since training; it may contain earlier rows too."""
    output: str | None = setting(is_path=True)
    """Folder for watch.json; null: `watch` next to the checkpoint."""
    history: str | None = setting(is_path=True)
    """File with the rows of training, as they were; null: the file of training, if it has not changed."""
    dataset: InputFormat = setting(InputFormat)
    """Format and repairs of the file, if different from the training data."""
    batch_size: int = setting(256, least=1)
    """Windows per batch."""
