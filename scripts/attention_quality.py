"""Accuracy of the approximating mechanisms, one figure each.

    python scripts/attention_quality.py --output runs/attention_quality
    python scripts/attention_quality.py --only topk prob --seeds 2 --length 64

performer  error of A compared with full attention over the number of features, both kinds, orthogonal or not, three
radii reformer   share of full attention's weight on the pairs that hashing keeps, over the number of hashes topk
error of A against full attention over k, for three scales of the scores prob       share of the exact top queries (by
max - mean over all keys) that each sampling finds, over the length

Queries and keys are independent N(0, scale^2) numbers, float64, drawn for every seed, like the random numbers of the
mechanism; the figures show means over seeds and their standard deviation. Errors are |A - A_full| / |A_full| in
Frobenius norm. Existing figures are not computed again. Under --output: NAME.csv and NAME.png for each, table.md.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby, product
from math import nan
from pathlib import Path
from statistics import mean, stdev

import torch
from matplotlib.figure import Figure
from result_files import markdown_table, open_folder, read_rows, write_rows
from torch import Tensor

from informer.attention.base import AttentionSpec
from informer.attention.prob import log_count
from informer.attention.sparsity import sparsity
from informer.build import build_attention
from informer.errors import InputError
from informer.files import write_atomic
from informer.plots import save_figure


@dataclass(kw_only=True, slots=True)
class Point:
    """One value of one line of a figure, over the seeds."""

    panel: str
    line: str
    x: int
    value: float
    deviation: float


@dataclass(kw_only=True, frozen=True, slots=True)
class Inputs:
    """Random inputs of all figures."""

    length: int
    heads: int
    width: int
    scale: float
    seeds: int

    def spec(self, length: int | None = None) -> AttentionSpec:
        """One layer of that length."""
        length = length or self.length
        return AttentionSpec(n_heads=self.heads, d_head=self.width, len_q=length, len_k=length)

    def draw(self, seed: int, *, length: int | None = None, factor: float = 1.0) -> tuple[Tensor, Tensor]:
        """Draw q and k [1 heads length width]; a mechanism built next draws from the same generator."""
        torch.manual_seed(seed)
        shape = (1, self.heads, length or self.length, self.width)
        q, k = (factor * self.scale * torch.randn(shape, dtype=torch.float64) for _ in "qk")
        return q, k

    def point(self, panel: str, line: str, x: int, value: Callable[[int], float]) -> Point:
        """Mean and standard deviation of `value` over seeds."""
        values = [value(seed) for seed in range(self.seeds)]
        return Point(panel=panel, line=line, x=x, value=mean(values), deviation=stdev(values) if len(values) > 1 else 0)


def powers(least: int, most: int) -> list[int]:
    """Powers of two from `least` to `most`."""
    return [2**i for i in range(most.bit_length()) if least <= 2**i <= most]


def relative_error(inputs: Inputs, name: str, seed: int, factor: float = 1.0, **params: object) -> float:
    """Relative error of the mechanism's matrix compared with that of full attention."""
    q, k = inputs.draw(seed, factor=factor)
    full = build_attention("full", inputs.spec()).weights(q, k)
    weights = build_attention(name, inputs.spec(), **params).double().eval().weights(q, k)
    return float((weights - full).norm() / full.norm())


def performer(inputs: Inputs) -> Iterator[Point]:
    """Error over the number of features."""
    for kind, orthogonal, radii, m in product(
        ("positive", "trig"), (True, False), ("gaussian", "sqrt_d", "quantile"), powers(16, 4096)
    ):
        line = f"{radii}, {'orthogonal' if orthogonal else 'independent'}"
        panel = f"kind={kind}: error against full attention"
        value = partial(
            relative_error, inputs, "performer", kind=kind, orthogonal=orthogonal, radii=radii, n_features=m
        )
        yield inputs.point(panel, line, m, value)


def reformer(inputs: Inputs) -> Iterator[Point]:
    """Weight kept over the number of hashes."""

    def kept(seed: int, n_buckets: int, n_hashes: int) -> float:
        q, k = inputs.draw(seed)
        full = build_attention("full", inputs.spec()).weights(q, k)
        hashed = build_attention("reformer", inputs.spec(), n_buckets=n_buckets, n_hashes=n_hashes, seed=seed).double()
        return float((full * (hashed.weights(q, k) > 0)).sum() / full.sum())

    for n_buckets, n_hashes in product((4, 8, 16), powers(1, 16)):
        value = partial(kept, n_buckets=n_buckets, n_hashes=n_hashes)
        yield inputs.point("share of full attention's weight kept", f"{n_buckets} buckets", n_hashes, value)


def topk(inputs: Inputs) -> Iterator[Point]:
    """Error over k."""
    for factor, k in product((1, 2, 4), powers(1, inputs.length)):
        value = partial(relative_error, inputs, "topk", factor=factor**0.5, k=k)
        yield inputs.point("error against full attention", f"scores times {factor}", k, value)


def cyclic(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs with daily and weekly cycles in queries and keys, with one amplitude and phase per feature."""
    hours = torch.arange(k.shape[2], dtype=k.dtype)[:, None] * 2 * torch.pi
    size, phase = torch.randn(2, 2, k.shape[3], dtype=k.dtype)
    cycles = sum(size[i] * torch.sin(hours / period + 3 * phase[i]) for i, period in enumerate((24, 168)))
    return q + cycles, k + cycles


def top_recall(sampling: str, q: Tensor, k: Tensor, factor: int = 5) -> float:
    """Share of the exact top queries among those that the sampling ranks highest."""
    length = k.shape[2]
    n_top = n_sample = log_count(factor, length)
    samples = {
        "shared, training": lambda: torch.randperm(length)[:n_sample],
        "shared, evaluation": lambda: torch.linspace(0, length - 1, n_sample, dtype=torch.float64).round().long(),
        "per_query": lambda: torch.randint(length, (length, n_sample)),
        "per_query, mean=zero_fill": lambda: torch.randint(length, (length, n_sample)),
        "lse": lambda: None,
    }
    centre = "zero_fill" if "zero_fill" in sampling else "sample"
    exact, sampled = (
        sparsity(q, k, sample_index=index, causal=False, mean=mean).topk(n_top).indices
        for index, mean in ((torch.arange(length), "sample"), (samples[sampling](), centre))
    )
    return float((exact[..., None] == sampled[..., None, :]).any(-1).double().mean())


def prob(inputs: Inputs) -> Iterator[Point]:
    """Recall of the top queries over the length."""
    samplings = ("shared, training", "shared, evaluation", "per_query", "per_query, mean=zero_fill", "lse")
    for kind, sampling, length in product(
        ("Gaussian", "daily and weekly cycles"), samplings, powers(64, 4 * inputs.length)
    ):

        def value(seed: int, kind: str = kind, sampling: str = sampling, length: int = length) -> float:
            q, k = inputs.draw(seed, length=length)
            return top_recall(sampling, *((q, k) if kind == "Gaussian" else cyclic(q, k)))

        yield inputs.point(f"{kind}: share of exact top queries found", sampling, length, value)


FIGURES: dict[str, tuple[Callable[[Inputs], Iterator[Point]], str, bool]] = {
    "performer": (performer, "features m", True),
    "reformer": (reformer, "hashes", False),
    "topk": (topk, "k", True),
    "prob": (prob, "length", False),
}
"""Name -> points, what x is, whether the value is drawn on a logarithmic axis."""


def draw(points: list[Point], x_label: str, *, logarithmic: bool, path: Path) -> None:
    """Plot panels side by side, one line with its standard deviation per variant."""
    panels = list(dict.fromkeys(point.panel for point in points))
    figure = Figure(figsize=(6.5 * len(panels), 4.8), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for line in dict.fromkeys(point.line for point in points):
            line_points = [point for point in points if (point.panel, point.line) == (panel, line)]
            values = [point.value or nan if logarithmic else point.value for point in line_points]
            style = "--" if "independent" in line else "-"
            axes.errorbar(
                [point.x for point in line_points], values, [point.deviation for point in line_points],
                label=line, linestyle=style, marker="o", markersize=3, capsize=2,
            )  # fmt: skip
        axes.set_title(panel, loc="left", fontsize=10)
        axes.set_xlabel(x_label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log" if logarithmic else "linear")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    save_figure(figure, path)


def table(name: str, points: list[Point], x_label: str) -> str:
    """Table with lines as rows and x as columns: mean and standard deviation."""
    places = sorted({point.x for point in points})
    rows = [
        [panel, line, *(f"{point.value:.3g} ± {point.deviation:.1g}" for point in group)]
        for (panel, line), group in groupby(points, key=lambda point: (point.panel, point.line))
    ]
    return markdown_table([name, x_label, *map(str, places)], rows)


def main() -> None:
    """Compute missing figures, plot and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=list(FIGURES), metavar="NAME")
    parser.add_argument("--length", type=int, default=256, help="queries and keys; prob goes to four times as many")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=16, help="features of a head")
    parser.add_argument("--scale", type=float, default=0.7, help="standard deviation of queries and keys")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("runs/attention_quality"), help="folder to write")
    options = parser.parse_args()
    facts = {name: getattr(options, name) for name in ("length", "heads", "width", "scale", "seeds")}
    try:
        open_folder(options.output, facts)
    except InputError as error:
        sys.exit(f"error: {error}")
    tables = {}
    for name, (_, x_label, _) in FIGURES.items():  # keep the results of earlier calls in the table
        if points := read_rows(Point, options.output / f"{name}.csv"):
            tables[name] = table(name, points, x_label)
    for name in options.only:
        make, x_label, logarithmic = FIGURES[name]
        path = options.output / f"{name}.csv"
        points = read_rows(Point, path) or list(make(Inputs(**facts)))
        write_rows(Point, points, path)
        draw(points, x_label, logarithmic=logarithmic, path=path.with_suffix(".png"))
        tables[name] = table(name, points, x_label)
        write_atomic(options.output / "table.md", "\n".join([f"{facts}\n", *tables.values()]))
        print(tables[name])


if __name__ == "__main__":
    main()
