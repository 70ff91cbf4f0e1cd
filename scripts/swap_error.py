"""How far a trained network is from itself after its full attention is exchanged for Performer's estimate of it.

    python -m informer.train dataset=ETTh1 model=small attn=full seq_len=96 label_len=48 pred_len=24 optim.lr=1e-3 trainer.max_epochs=2 run_dir=runs/full
    python scripts/swap_error.py runs/full

Prints the standard deviation of every layer's logits; the error of both kernels for logits of that size; the change of
the forecasts right after the swap; and what lower logits, redrawn features and steps of fine-tuning do about it. Errors
are |y - y_full| / |y_full| over validation windows.
"""  # noqa: E501 (a command)

import argparse
import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from statistics import mean, stdev

import torch
from result_files import markdown_table
from torch import Tensor

from informer import checkpoint
from informer.build import attention_node, build_attention, build_model
from informer.checkpoint.restore import restore_model
from informer.config import conversion
from informer.data.dataset import Data
from informer.inference.rescore import trained_data
from informer.networks.attention.base import AttentionSpec
from informer.networks.forecast_model import ForecastModel, model_forecast
from informer.networks.models.base import ModelDims

CPU = torch.device("cpu")
LOGITS, FEATURES, DRAWS = (0.1, 0.3, 1.0, 3.0), (16, 64, 256, 1024), 3
WINDOWS, STEPS, BATCH, RATE = 64, 100, 32, 1e-4
KINDS = ("positive", "trig")


def error(found: Tensor, expected: Tensor) -> float:
    """|found - expected| / |expected|."""
    return float((found - expected).norm() / expected.norm())


def of_kernels(n_rows: int = 96, width: int = 16, heads: int = 32) -> Iterator[list[str]]:
    """Error of the attention matrix for queries and keys of N(0, s I), whose logits have the standard deviation s."""
    spec = AttentionSpec(heads, width, n_rows, n_rows)
    for kind in KINDS:
        for m in FEATURES[:3]:
            row = [kind, str(m)]
            for logit in LOGITS:
                torch.manual_seed(0)
                q, k = (torch.randn(1, heads, n_rows, width) * logit**0.5 for _ in "qk")
                exact = build_attention("full", spec).weights(q, k)
                found = (build_attention("performer", spec, kind=kind, n_features=m) for _ in range(DRAWS))
                row.append(f"{mean(error(each.weights(q, k), exact) for each in found):.2f}")
            yield row


def swapped(saved: checkpoint.Checkpoint, weights: dict[str, Tensor], **parameters: object) -> ForecastModel:
    """The network with new random features in encoder and decoder."""
    settings = conversion.from_plain(saved.config)
    node, dims = attention_node("performer") | parameters, ModelDims(**saved.dims)
    model = build_model(settings.model, dims, attn=node, decoder_attn=node, cross_attn=settings.cross_attn)
    model.load_state_dict(model.state_dict() | weights)
    return model.eval()


def with_logits(weights: dict[str, Tensor], factor: float) -> dict[str, Tensor]:
    """Weights whose logits of self-attention are `factor` times as large, by the projection of the queries."""
    own = {name for name in weights if ".query." in name and "cross_attention" not in name}
    return {name: weight * factor if name in own else weight for name, weight in weights.items()}


def tuned(model: ForecastModel, data: Data, steps: int = STEPS) -> ForecastModel:
    """The model after steps of Adam with the mean squared error."""
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(model.train().parameters(), lr=RATE)
    for _ in range(steps):
        batch = data.train.batch(torch.randint(len(data.train), (BATCH,)))
        optimizer.zero_grad()
        (model_forecast(model, batch) - batch.target).square().mean().backward()
        optimizer.step()
    return model.eval()


def main() -> None:
    """Read the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of a run with attn=full")
    saved = checkpoint.load(parser.parse_args().run)
    with trained_data(saved, CPU, scratch=Path(), data_dir=os.environ.get("INFORMER_DATA_DIR")) as data:
        measure(saved, data)


def measure(saved: checkpoint.Checkpoint, data: Data) -> None:
    """Print the tables of a network and its data."""
    batch = data.val.batch(torch.linspace(0, len(data.val) - 1, WINDOWS).long())
    full = restore_model(saved).eval()

    def forecast(model: ForecastModel) -> Tensor:
        with torch.inference_mode():
            return model_forecast(model, batch)

    logits: dict[str, float] = {}
    for place, layer in full.attention_layers().items():

        def note(_: object, operands: tuple[Tensor, ...], place: str = place) -> None:
            q, k = operands[0][:32], operands[1][:32]
            logits[place] = float((q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).std())

        layer.attention.register_forward_pre_hook(note)
    expected = forecast(full)
    print("logits:", ", ".join(f"{place} {size:.2f}" for place, size in logits.items()), "\n")
    print(markdown_table(["kernel", "m", *(f"logits {logit}" for logit in LOGITS)], [*of_kernels()]))

    weights, rows = full.state_dict(), []
    for kind in KINDS:
        for m in FEATURES:
            torch.manual_seed(0)
            found = [error(forecast(swapped(saved, weights, kind=kind, n_features=m)), expected) for _ in range(DRAWS)]
            rows.append([kind, str(m), f"{mean(found):.2f} ± {stdev(found):.2f}"])
    print(markdown_table(["kernel", "m", "change of the forecasts"], rows), flush=True)

    def row(name: str, before: ForecastModel) -> list[str]:
        after = tuned(deepcopy(before), data)
        scores = [float((forecast(model) - batch.target).square().mean()) for model in (before, after)]
        changes = [error(forecast(model), expected) for model in (before, after)]
        return [name, *(f"{value:.2f}" for value in changes), *(f"{value:.3f}" for value in scores)]

    rows = [row("full", restore_model(saved).eval())]
    for factor in (1.0, 0.5, 0.25):
        torch.manual_seed(0)
        rows.append(row(f"logits x {factor}", swapped(saved, with_logits(weights, factor))))
    torch.manual_seed(0)
    rows.append(row("redrawn every 10 steps", swapped(saved, weights, redraw_every=10)))
    torch.manual_seed(0)
    rows.append(row("256 features", swapped(saved, weights, n_features=256)))
    print(markdown_table(["", "change", f"after {STEPS} steps", "validation MSE", f"after {STEPS} steps"], rows))


if __name__ == "__main__":
    main()
