"""Time of one row of the horizon with `model.decoding=step` (for the benchmark).

The decoder has one layer of HEADS heads of WIDTH features and an embedding without a look ahead. A mechanism with a
recurrent form has a state, full attention keeps all keys and values; for comparison, a decoder that is run anew for
each row.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from attention_passes import HEADS, WIDTH, Setup
from result_files import markdown_table

from informer.build import attention_class, attention_names, attention_node, build_model
from informer.config.model import Decoding, EmbedPadding, InformerConfig
from informer.networks.attention.recurrent import RecurrentAttention
from informer.networks.forecast_model import ForecastModel
from informer.networks.models.base import ModelDims

ANEW = "full, run anew"
"""Full attention in a decoder that is run for each row."""
ROWS, TOKEN = 96, 48
"""Rows of the lookback window and of the start token."""
MAX_SECONDS = 60.0
"""A decoder that is run anew, which takes as many times longer as the square of the horizon, stops before this."""


@dataclass(kw_only=True, slots=True)
class DecodeCell:
    """One mechanism at one horizon."""

    attn: str
    horizon: int
    seconds: float
    """Mean of one row."""


def recurrent_names() -> list[str]:
    """Names of `attn=` whose mechanism has a recurrent form."""
    classes = {name: attention_class(attention_node(name)["_target_"]) for name in attention_names()}
    return [name for name, cls in classes.items() if issubclass(cls, RecurrentAttention)]


def model_of(name: str, horizon: int) -> ForecastModel:
    """A network with the mechanism in its decoder, or with `ANEW`."""
    torch.manual_seed(0)
    config = InformerConfig(
        d_model=HEADS * WIDTH, n_heads=HEADS, decoding=Decoding.step, embed_padding=EmbedPadding.causal
    )
    dims = ModelDims(enc_in=7, c_out=7, mark_sizes=(1,) * 4, seq_len=ROWS, label_len=TOKEN, pred_len=horizon)
    full = attention_node("full")
    own = full if name == ANEW else attention_node(name)
    model = build_model(config, dims, attn=full, decoder_attn=own, cross_attn=full).eval()
    model.keeps_states = name != ANEW
    return model


@torch.inference_mode()
def decode(setup: Setup, name: str, horizons: list[int]) -> Iterator[DecodeCell]:
    """Cells of one mechanism for one window, the shortest horizon first."""
    torch.set_num_threads(setup.threads)
    seconds = 0.0
    for last, horizon in zip([1, *sorted(set(horizons))], sorted(set(horizons)), strict=False):
        if name == ANEW and seconds * (horizon / last) ** 2 > MAX_SECONDS:
            return
        model = model_of(name, horizon).to(setup.device)
        rows = [torch.randn(1, n, width, device=setup.device) for n in (ROWS, TOKEN + horizon) for width in (7, 4)]
        if not seconds:  # the first call of a process is slow
            model_of(name, 2).to(setup.device)(*rows[:2], *(x[:, : TOKEN + 2] for x in rows[2:]))
        start = setup.now()
        model(*rows)
        if setup.device == "cuda":
            torch.cuda.synchronize()
        seconds = setup.now() - start
        yield DecodeCell(attn=name, horizon=horizon, seconds=seconds / horizon)


def decode_table(cells: list[DecodeCell]) -> str:
    """Milliseconds per row, one line per mechanism."""
    horizons = sorted({cell.horizon for cell in cells})
    rows = []
    for name in dict.fromkeys(cell.attn for cell in cells):
        found = {cell.horizon: f"{1e3 * cell.seconds:.3g}" for cell in cells if cell.attn == name}
        empty = f"> {MAX_SECONDS:.0f} s in all"
        rows.append([f"`{name}`" if name != ANEW else name, *(found.get(horizon, empty) for horizon in horizons)])
    return markdown_table(["milliseconds a row", *map(str, horizons)], rows)
