"""Documentation pages generated from the code: configuration, commands, the gallery of attention mechanisms.

mkdocs calls the functions `on_...` (`mkdocs build` with mkdocs.yml); nothing is written into `docs/`.
"""

import inspect
import io
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import matplotlib.pyplot as plt
import numpy as np
import torch
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from informer.checkpoint.network import attention_class, attention_names, attention_node, build_attention
from informer.commands.cli import COMMANDS, settings_class
from informer.config import model as families
from informer.config.compose import choices_of, help_of
from informer.config.fields import Checked, Count, default_of, fields_of, keys_of
from informer.config.overrides import to_display
from informer.config.training import TrainConfig
from informer.networks.attention.base import AttentionSpec

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
ROWS, HEADS, WIDTH = 64, 1, 16
"""Of the attention maps in the gallery."""

USES = {
    "additive": "Short sequences and one query at a time, as in recurrent decoders; slow on long ones.",
    "auto": "The default choice when lengths vary: full attention where it is cheap, ProbSparse where it is not.",
    "autocorrelation": "Periodic series: whole periods are compared instead of rows; no causal form.",
    "bigbird": "Long encoders that need a few distant rows: neighbours, random keys and global rows.",
    "bigbird_etc": "The same with learned global tokens instead of global rows.",
    "bilinear": "A learned metric between queries and keys, at the cost of full attention.",
    "dot": "Full attention without the factor e^-0.5, for comparison.",
    "efficient": "Linear cost with a softmax over features; fast at any length.",
    "em": "A few prototypes per head summarise the sequence; no causal form.",
    "etc": "Long encoders with a neighbourhood and a learned global summary.",
    "fourier": "Encoders of a fixed length whose series are made of a few frequencies; no causal form.",
    "full": "The reference. Fastest up to a few hundred rows.",
    "gated_delta": "Linear cost and a recurrent form that forgets and overwrites; decoders, and series read in order.",
    "hard": "One key per query; mainly for study.",
    "linear": "Linear cost and a recurrent form of constant size.",
    "linformer": "Encoders of a fixed length; keys are mixed along time, so there is no causal form.",
    "log_sparse": "Causal attention to rows at exponentially growing distances.",
    "longformer": "Long sequences where nearby rows matter most, plus global rows.",
    "performer": "An unbiased estimate of softmax attention at linear cost.",
    "performer_trig": "Performer with trigonometric features, for comparison; small weights come out noisier.",
    "pooled": "Keys averaged in groups: the simplest way to a shorter memory.",
    "prob": "The Informer's own: full rows for the most active queries, the mean for the others.",
    "reformer": "Long sequences with few strong matches: queries and keys meet in hash buckets.",
    "relu": "Weights that can be exactly zero, without a softmax.",
    "sparse_fixed": "Factorised attention to blocks and their summary rows.",
    "sparse_strided": "Factorised attention to a neighbourhood and every n-th row: periodic data.",
    "synthesizer": "Learned weights that do not look at the input; a lower bound for what content adds.",
    "synthesizer_dense": "Weights from each query alone.",
    "taylor": "Linear cost by the first terms of the exponential's series.",
    "topk": "The k strongest keys of each query.",
    "truncated": "A plain neighbourhood.",
    "vq": "Exact softmax attention over quantised keys, causal at linear cost.",
}
"""When to use a mechanism, one sentence each."""


@event_priority(100)  # before the plugin that renders notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages: dict[str, str | bytes] = {
        "reference/configuration.md": configuration_page(),
        "reference/commands.md": commands_page(),
        "gallery.md": gallery_page(),
    }
    pages |= {f"gallery/{name}.png": attention_map(name) for name in attention_names()}
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        name = f"notebooks/{notebook.name}"
        files.append(File(name, str(NOTEBOOKS.parent), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links to files outside `docs/` by their text, since the built site does not contain these."""
    text = r"((?:`[^`]*`|[^\]`])*)"  # code in it may have brackets
    return re.sub(rf"\[{text}\]\(\.\./(?!tutorials|reference|gallery|results)[^)]*\)", r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Replace formulas by MathML, which browsers draw without a script or fonts from elsewhere."""

    def drawn(found: re.Match[str]) -> str:
        tag, opening, formula = found[1], found[2], unescape(found[3])
        return convert(formula, display="block" if tag == "div" and opening == "[" else "inline")

    return re.sub(r'<(div|span) class="arithmatex">\\([\[(])(.+?)\\[\])]</\1>', drawn, html, flags=re.DOTALL)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """The theme's search asks the network for a script that it needs on pages opened from disk: it is in assets."""
    path = get_relative_url("assets/iframe-worker.js", page.url)
    return output.replace("https://unpkg.com/iframe-worker/shim", path)


def configuration_page() -> str:
    """Every key of a training run, from its classes; `model` for each family."""
    lines = [
        "# Configuration",
        "",
        "Every key of `informer train`, as `key=value` on the command line. `informer train --cfg job` prints them all "
        "with their values.",
        "",
        *_table("", TrainConfig, own=True),
    ]
    for name, field in fields_of(TrainConfig).items():
        if isinstance(node := default_of(field), Checked) and name != "model":
            lines += ["", f"## {name}", "", *_table(f"{name}.", type(node))]
    for family in families.package_families():
        schema = families.config_class(family)
        lines += ["", f"## model: {family}", "", inspect.cleandoc(schema.__doc__ or ""), "", *_table("model.", schema)]
    return "\n".join(lines) + "\n"


def _table(prefix: str, schema: type, *, own: bool = False) -> Iterator[str]:
    """One row per key; `own`: without those of nodes."""
    yield "| key | values | default | meaning |"
    yield "|---|---|---|---|"
    for key, field in keys_of(schema, prefix).items():
        if own and "." in key:
            continue
        meaning = (field.description or "").replace("|", "\\|").replace("_<", "\\_<").replace("<", "&lt;")
        yield f"| `{key}` | {_kind(field.annotation)} | `{to_display(default_of(field))}` | {meaning} |"


def _text(value: Any) -> str:
    """A value as on the command line."""
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def _kind(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_kind, get_args(hint)))
    if get_origin(hint) is Literal:
        return ", ".join(f"`{name}`" for name in choices_of(hint))
    names = {NoneType: "`null`", bool: "bool", int: "int", float: "float", str: "text", Count: "int"}
    return names.get(hint) or (f"list of {_kind(get_args(hint)[0])}" if get_origin(hint) is list else "keys")


def commands_page() -> str:
    """The help of every command."""
    lines = ["# Commands", "", "`informer COMMAND key=value ...`, or `python -m informer COMMAND key=value ...`.", ""]
    for name in COMMANDS:
        lines += [
            f"## {name}",
            "",
            "```text",
            help_of(settings_class(name), with_groups=name == "train").strip(),
            "```",
            "",
        ]
    return "\n".join(lines)


def gallery_page() -> str:
    """Every mechanism: description, when to use it, formula and cost, parameters, and a map of its weights."""
    lines = [
        "# Attention gallery",
        "",
        f"Each picture shows the weights of the same {ROWS} queries (rows) and keys (columns), a smooth random walk "
        "through feature space. The colour scale ends at the picture's largest weight.",
        "",
    ]
    for name in attention_names():
        node = attention_node(name)
        mechanism = attention_class(node["_target_"])
        text = inspect.cleandoc(inspect.getmodule(mechanism).__doc__ or "")
        parameters = ", ".join(f"`{key}={_text(value)}`" for key, value in node.items() if key != "_target_")
        lines += [
            f"## {name}", "", USES.get(name, inspect.cleandoc(mechanism.__doc__ or "").partition("\n")[0]), "",
            f"![Weights of {name}](gallery/{name}.png){{ width=200 align=right }}", "",
            f"Cost: {mechanism.COST}. Causal: {'yes' if mechanism.CAUSAL else 'no'}. Cross-attention: "
            f"{'yes' if mechanism.CROSS else 'no'}. Parameters: {parameters or 'none'}.", "",
            "```text", text, "```", "",
        ]  # fmt: skip
    return "\n".join(lines)


def attention_map(name: str) -> bytes:
    """The weights of a mechanism with its default parameters as a PNG."""
    torch.manual_seed(0)
    walk = torch.randn(2, 1, HEADS, ROWS, WIDTH).cumsum(dim=3)
    q, k = 2.0 * walk / walk.std(dim=3, keepdim=True)
    spec = AttentionSpec(n_heads=HEADS, d_head=WIDTH, len_q=ROWS, len_k=ROWS, causal=False, dropout=0.0)
    with torch.no_grad():
        weights = build_attention(name, spec).eval().weights(q, k)[0, 0].abs().numpy()
    picture = io.BytesIO()
    plt.imsave(picture, np.kron(weights, np.ones((4, 4))), cmap="viridis", vmin=0.0, vmax=weights.max())
    return picture.getvalue()
