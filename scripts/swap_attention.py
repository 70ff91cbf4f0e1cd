"""Put every attention mechanism into one trained network: test error right after the swap and after fine-tuning.

    python scripts/swap_attention.py checkpoint=runs/full steps=0,100,500 [attn=[a,b]] [lr=5e-4] [data_dir=data]

The experiment of Choromanski et al. 2020 ("Rethinking Attention with Performers") for every mechanism. Each one starts
with the weights of `checkpoint`, like `init_from=RUN attn=NAME`: in the encoder and, if it has a causal form, in the
decoder's self-attention. It is scored on the test part after each number of steps, at a constant rate (`lr`, by default
that of the run), with the run's batches and loss. The checkpoint's own mechanism is the control: continued training.
Finished mechanisms are not run again: the same command continues where it stopped.

Under --output: NAME.json (its rows), and for all of them swap.csv, swap.md and swap.png.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure
from result_files import markdown_table, open_folder, write_rows
from rich.console import Console
from short_training import CPU, scores_of, trained_by

from informer import checkpoint
from informer.build import attention_names, attention_node, complete_node, resolve_decoder
from informer.checkpoint.format import Checkpoint
from informer.config.conversion import from_plain
from informer.config.schema import TrainConfig
from informer.config.training import Schedule
from informer.data.pipeline import Data
from informer.errors import InputError, one_of
from informer.files import write_atomic
from informer.inference.trained_data import trained_data
from informer.runtime import seed_everything
from informer.training.initial import begin_with, new_network
from informer.training.signals import Interrupted


@dataclass(kw_only=True, frozen=True, slots=True)
class Row:
    """One mechanism after some steps; errors are those of the test part in scaled units."""

    attn: str
    steps: int
    mse: float
    mae: float
    fresh: int
    """Tensors that the checkpoint does not have."""
    cpu_seconds: float
    """Of all steps up to here."""
    remark: str


@dataclass(kw_only=True, frozen=True, slots=True)
class SwapOptions:
    """Options of the command line."""

    checkpoint: str
    steps: list[int]
    attn: list[str]
    lr: float | None
    data_dir: str | None

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "SwapOptions":
        """Parse `key=value`.

        Raises:
            InputError: an unknown key or mechanism, no checkpoint, or steps that are not increasing.
        """
        settings = dict(argument.partition("=")[::2] for argument in arguments)
        keys = [*cls.__dataclass_fields__]
        for key in settings:
            if key not in keys:
                raise one_of("key", key, keys)
        if "checkpoint" not in settings:
            raise InputError("checkpoint: expected a run directory, as in checkpoint=runs/latest")
        names = settings["attn"].strip("[]").split(",") if "attn" in settings else attention_names()
        try:
            options = cls(
                checkpoint=settings["checkpoint"],
                steps=[int(step) for step in settings.get("steps", "0,100,500").strip("[]").split(",")],
                attn=names,
                lr=float(settings["lr"]) if "lr" in settings else None,
                data_dir=settings.get("data_dir"),
            )
        except ValueError as error:
            raise InputError(f"steps, lr: expected numbers ({error})") from error
        for name in options.attn:
            if name not in attention_names():
                raise one_of("attention", name, attention_names())
        if options.steps != sorted(set(options.steps)) or options.steps[0] < 0:
            raise InputError(f"steps: expected ascending numbers from 0, found {options.steps}")
        return options


def swapped_settings(trained: TrainConfig, name: str, lr: float | None) -> tuple[TrainConfig, str]:
    """The configuration with `attn=NAME` at a constant rate, and a remark on the decoder."""
    attn = attention_node(name)
    decoder_attn, reason = resolve_decoder(attn, {})
    optim = replace(trained.optim, lr=lr or trained.optim.lr, schedule=Schedule.constant)
    return replace(trained, attn=attn, decoder_attn=decoder_attn, optim=optim), "decoder: full" if reason else ""


def swap(saved: Checkpoint, data: Data, name: str, options: SwapOptions) -> list[Row]:
    """Swap one mechanism; returns its rows."""
    settings, remark = swapped_settings(from_plain(saved.config), name, options.lr)
    seed_everything(settings.seed)
    model = new_network(settings, data)
    transfer = begin_with(model, settings, data, saved)
    rows, fresh = [], len(transfer.new)
    for steps, seconds in zip(options.steps, trained_by(settings, model, data, options.steps), strict=True):
        test_scores = scores_of(model, data, settings.trainer.eval_batch_size)
        scores = {"mse": test_scores["mse"], "mae": test_scores["mae"]}
        rows.append(Row(attn=name, steps=steps, **scores, fresh=fresh, cpu_seconds=seconds, remark=remark))
    return rows


def by_mechanism(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows of each mechanism, the lowest error after the last step first."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.attn, []).append(row)
    return dict(sorted(groups.items(), key=lambda item: item[1][-1].mse))


def as_markdown(rows: Sequence[Row], own_name: str) -> str:
    """One line per mechanism; `own_name` is the mechanism of the checkpoint."""
    steps = sorted({row.steps for row in rows})
    lines = []
    for name, group in by_mechanism(rows).items():
        scores = [f"{row.mse:.3f} / {row.mae:.3f}" for row in group]
        last = group[-1]
        title = f"**`{name}`** (its own)" if name == own_name else f"`{name}`"
        lines.append([title, *scores, str(last.fresh), f"{last.cpu_seconds:.0f}", last.remark])
    heading = ["`attn=`", *(f"{n} steps" for n in steps), "fresh tensors", "CPU s", "remark"]
    return markdown_table(heading, lines)


def as_figure(rows: Sequence[Row], own_name: str) -> Figure:
    """Plot test MSE of each mechanism by number of steps; a line marks the checkpoint's own at step 0."""
    groups = by_mechanism(rows)
    figure = Figure(figsize=(7.5, 1.2 + 0.27 * len(groups)), layout="constrained")
    axes = figure.subplots()
    steps = sorted({row.steps for row in rows})
    marks = dict(zip(steps, "o^sDvP*X", strict=False))
    for place, group in enumerate(groups.values()):
        axes.plot([row.mse for row in group], [place] * len(group), color="0.8", zorder=1)
    for number, n in enumerate(steps):
        points = [(row.mse, place) for place, group in enumerate(groups.values()) for row in group if row.steps == n]
        x, y = zip(*points, strict=True)
        axes.scatter(x, y, marker=marks.get(n, "."), color=f"C{number}", label=f"{n} steps", zorder=2)
    if own_name in groups:
        before = groups[own_name][0]
        axes.axvline(before.mse, color="0.4", linestyle="--", label=f"{own_name}, as trained", zorder=0)
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.set(xlabel="test MSE (scaled)", xscale="log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.grid(axis="x", which="both", color="0.93")
    figure.legend(loc="outside upper center", ncols=len(steps) + 1, frameon=False)
    return figure


def own_mechanism(saved: Checkpoint) -> str:
    """Name of the checkpoint's mechanism, or its class if no file of `conf/attn` has these parameters."""
    node = complete_node(saved.config["attn"])
    same = (name for name in attention_names() if complete_node(attention_node(name)) == node)
    return next(same, str(node["_target_"]).rpartition(".")[2])


def run(options: SwapOptions, folder: Path, console: Console) -> None:
    """Run the mechanisms that are not finished; table and figure are written after each."""
    saved = checkpoint.load(Path(options.checkpoint))
    own_name = own_mechanism(saved)
    facts = {"steps": options.steps, "lr": options.lr, "step": saved.step, "val_loss": saved.val_loss}
    open_folder(folder, facts | {"data": saved.data["sha256"]})
    with trained_data(saved, CPU, scratch=folder, data_dir=options.data_dir) as data:
        for place, name in enumerate(options.attn, start=1):
            path = folder / f"{name}.json"
            if not path.exists():
                rows = swap(saved, data, name, options)
                write_atomic(path, json.dumps([asdict(row) for row in rows]) + "\n")
                scores = "  ".join(f"{row.steps}: {row.mse:.4f}" for row in rows)
                console.print(f"{place}/{len(options.attn)} {name}  {scores}", markup=False, highlight=False)
            write_report(folder, own_name)


def write_report(folder: Path, own_name: str) -> None:
    """Write swap.csv, swap.md and swap.png for all finished mechanisms."""
    rows = [row for name in attention_names() for row in finished(folder / f"{name}.json")]
    write_rows(Row, rows, folder / "swap.csv")
    write_atomic(folder / "swap.md", as_markdown(rows, own_name))
    as_figure(rows, own_name).savefig(folder / "swap.png", dpi=130)


def finished(path: Path) -> list[Row]:
    """The rows of a mechanism; empty if it is not finished."""
    return [Row(**row) for row in json.loads(path.read_text())] if path.exists() else []


def main() -> None:
    """Swap, score, fine-tune, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="+", metavar="key=value", help="checkpoint, steps, attn, lr, data_dir")
    parser.add_argument("--output", type=Path, default=Path("runs/swap_attention"), help="folder to write")
    options, console = parser.parse_intermixed_args(), Console()
    try:
        run(SwapOptions.of(options.settings), options.output, console)
    except InputError as error:
        sys.exit(f"error: {error}")
    except (Interrupted, KeyboardInterrupt):
        sys.exit("stopped; the same command continues with what is missing")
    console.print(f"written to {options.output}", highlight=False)


if __name__ == "__main__":
    main()
