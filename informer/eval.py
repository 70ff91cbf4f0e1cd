"""`python -m informer.eval checkpoint=runs/latest`: score a trained model and two baselines on its test part.

Writes metrics.json, metrics.csv and, with plots=true, error_by_step.png.
"""

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from informer import checkpoint, cli
from informer.build import build_data, restore_model
from informer.config import EvalConfig, from_plain
from informer.errors import InputError
from informer.inference.evaluate import score
from informer.inference.report import Evaluation
from informer.plots import plot_error_by_step, save_figure
from informer.runtime import pick_device


def main() -> None:
    """Console script `informer-eval`."""
    cli.run("eval", lambda settings: evaluate(settings, Console()))


def evaluate(settings: EvalConfig, console: Console) -> Evaluation:
    """The report of a checkpoint on the test part of the data it was trained on.

    Raises:
        InputError: no readable checkpoint, or its data is not there or no longer has its columns.
    """
    path = checkpoint.locate(Path(settings.checkpoint))
    saved = checkpoint.load(path)
    device = pick_device(settings.device.value)
    with cli.logging_to(console):
        data = build_data(replace(from_plain(saved.config), data_dir=settings.data_dir), device)
        if [*data.inputs] != saved.inputs:
            raise InputError(
                f"{data.provenance.path}: expected the columns {', '.join(saved.inputs)} of the training data, "
                f"found {', '.join(data.inputs)}"
            )
        if data.provenance.sha256 != saved.data["sha256"]:
            console.print(f"note: {data.provenance.path} has changed since training", highlight=False, soft_wrap=True)
        evaluation = score(restore_model(saved).to(device), data, batch_size=settings.batch_size)
    output = Path(settings.output) if settings.output else path.parent / "eval"
    cli.make_folder(output)
    evaluation.save(output)
    if settings.plots:
        by_step = {name: errors.scaled.by_step()["mse"] for name, errors in evaluation.errors.items()}
        save_figure(plot_error_by_step(by_step), output / "error_by_step.png")
    console.print(evaluation.table())
    for line in [*evaluation.remarks, evaluation.verdict, f"report: {output}"]:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return evaluation


if __name__ == "__main__":
    main()
