"""Training steps of the Informers in two published packages (extra `bench`), for `benchmark_training.py`.

Each function makes one step (forward, the package's own loss, backward, Adam) of a network with the sizes of the
paper's, on random data of the same lengths. Some differences cannot be configured: neuralforecast forecasts one
column, needs label_len < seq_len and also uses sparse attention in the decoder's cross-attention; transformers has no
start token (its decoder has pred_len rows) and learns a distribution.
"""

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor, nn

D_MODEL, HEADS, D_FF, ENCODER_LAYERS, DECODER_LAYERS, FACTOR, DROPOUT = 512, 8, 2048, 2, 1, 5, 0.05

Step = Callable[[], None]


def neuralforecast_step(sizes: tuple[int, int, int], *, batch: int, columns: int, marks: int) -> Step:
    """neuralforecast's Informer with `marks` known-future columns; `columns` is not used, it takes one."""
    from neuralforecast.losses.pytorch import MSE
    from neuralforecast.models import Informer

    seq_len, label_len, pred_len = sizes
    model = Informer(
        h=pred_len,
        input_size=seq_len,
        futr_exog_list=[f"mark{i}" for i in range(marks)],
        decoder_input_size_multiplier=min(label_len, seq_len - 1) / seq_len,
        hidden_size=D_MODEL,
        dropout=DROPOUT,
        factor=FACTOR,
        n_head=HEADS,
        conv_hidden_size=D_FF,
        encoder_layers=ENCODER_LAYERS,
        decoder_layers=DECODER_LAYERS,
        loss=MSE(),
    )
    windows = {
        "insample_y": torch.randn(batch, seq_len, 1),
        "futr_exog": torch.randn(batch, seq_len + pred_len, marks),
    }
    target = torch.randn(batch, pred_len, 1)
    return _step(model, lambda: model.loss(y=target, y_hat=model(windows)))


def transformers_step(sizes: tuple[int, int, int], *, batch: int, columns: int, marks: int) -> Step:
    """transformers' InformerForPrediction, `columns` wide, with one lag."""
    from transformers import InformerConfig, InformerForPrediction

    seq_len, _, pred_len = sizes
    config = InformerConfig(
        prediction_length=pred_len,
        context_length=seq_len,
        input_size=columns,
        lags_sequence=[1],
        num_time_features=marks,
        d_model=D_MODEL,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=D_FF,
        decoder_ffn_dim=D_FF,
        encoder_layers=ENCODER_LAYERS,
        decoder_layers=DECODER_LAYERS,
        dropout=DROPOUT,
        attention_dropout=DROPOUT,
        activation_dropout=DROPOUT,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        sampling_factor=FACTOR,
    )
    model = InformerForPrediction(config)
    past = seq_len + 1  # the lag needs one row before the window
    values = {
        "past_values": torch.randn(batch, past, columns),
        "past_time_features": torch.randn(batch, past, marks),
        "past_observed_mask": torch.ones(batch, past, columns),
        "future_values": torch.randn(batch, pred_len, columns),
        "future_time_features": torch.randn(batch, pred_len, marks),
    }
    return _step(model, lambda: model(**values).loss)


PUBLISHED: dict[str, Callable[..., Step]] = {
    name: make
    for name, make in {"neuralforecast": neuralforecast_step, "transformers": transformers_step}.items()
    if find_spec(name) is not None
}
"""Those that are installed."""


def _step(model: nn.Module, loss: Callable[[], Tensor]) -> Step:
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return step
