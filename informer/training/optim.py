"""Optimiser, learning rate, precision, and losses on scaled values.

With bf16 only matrix products have that precision; weights, optimiser and losses are always float32.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from informer.config.training import LossConfig, OptimConfig, Precision
from informer.data.windows import Batch, Windows
from informer.networks.layers.distribution_head import LIKELIHOODS
from informer.training.processes import Processes


@final
class GuardedAdam(torch.optim.Adam):
    """Fused Adam that skips all steps from the first non-finite one on.

    Whether a step is finite is decided on the device, without synchronisation: the fused kernels skip a step if
    `found_inf` is 1, as for `torch.amp.GradScaler`.

    Args:
        params: parameters on one device.
        lr, weight_decay: see `torch.optim.Adam`.
        decoupled: weight decay of AdamW.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], *, lr: float, weight_decay: float, decoupled: bool = False
    ) -> None:
        params = list(params)
        super().__init__(params, lr=lr, weight_decay=weight_decay, decoupled_weight_decay=decoupled, fused=True)
        self.found_inf = torch.zeros((), device=params[0].device)
        """1 from the first non-finite step on."""

    # torch keeps these methods out of compiled graphs, which imports its compiler, 800 modules, when they are called;
    # nothing here compiles an optimiser
    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Adam.load_state_dict)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """See `torch.optim.Adam.step`."""
        return inspect.unwrap(torch.optim.Adam.step)(self, closure)

    def step_while_finite(self, *values: Tensor) -> None:
        """Make a step, unless one of `values`, now or in an earlier call, is not finite."""
        finite = torch.stack(values).isfinite().all()
        self.found_inf = torch.where(finite, self.found_inf, torch.ones_like(self.found_inf))
        self.step()


def build_optimizer(config: OptimConfig, model: nn.Module) -> GuardedAdam:
    """The optimiser of all trainable parameters."""
    learnt = (p for p in model.parameters() if p.requires_grad)
    is_decoupled = config.kind == "adamw"
    return GuardedAdam(learnt, lr=config.lr, weight_decay=config.weight_decay, decoupled=is_decoupled)


def learning_rate(config: OptimConfig, *, epoch: int, done: float) -> float:
    """Learning rate in `epoch` (from 1), after the share `done` of the run's steps."""
    factors = {
        "halving": 0.5 ** (epoch - 1),
        "constant": 1.0,
        "cosine": 0.5 * (1.0 + math.cos(math.pi * done)),
    }
    return config.lr * factors[config.schedule]


def gradient_norm(model: nn.Module, clip_norm: float | None) -> torch.Tensor:
    """Clip the gradient to `clip_norm`, if set; returns its Euclidean norm before clipping."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if clip_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), clip_norm, norm)
    return norm


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """The precision to use on `device`: float32 or bf16."""
    if precision != "auto":
        return precision
    if device.type == "cuda":
        has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        has_bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16" if has_bf16 else "float32"


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Context for the forward pass of a step."""
    enabled = resolve_precision(precision, device) == "bf16"
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


Loss = Callable[..., Tensor]


def build_loss(config: LossConfig, *, has_gaps: bool = False) -> Loss:
    """A loss function of network output and actual values; with `has_gaps`, missing actual values (NaN) are ignored,
    and it takes the weights of rows too."""
    losses: dict[str, Loss] = {
        "mse": F.mse_loss,
        "mae": F.l1_loss,
        "huber": F.huber_loss,
        "spectral": partial(spectral, alpha=config.alpha),
        "quantile": partial(mean_pinball, levels=config.quantiles),
        **LIKELIHOODS,
    }
    return partial(observed_loss, loss=losses[config.kind]) if has_gaps else losses[config.kind]


def observed_loss(
    output: Float[Tensor, "b pred_len n *q"],
    actual: Float[Tensor, "b pred_len n"],
    weight: Float[Tensor, "b pred_len"] | None = None,
    *,
    loss: Loss,
) -> Float[Tensor, ""]:
    """`loss` over forecasts whose actual value is observed; with weights of the rows, their weighted mean, as that of
    `torch.nn.CrossEntropyLoss`. The spectral loss needs all rows of a horizon, so it is an error with gaps or weights
    (see `TrainConfig.problems`)."""
    observed = ~actual.isnan()
    if weight is None and bool(observed.all()):
        return loss(output, actual)
    output, actual = output[observed][:, None, None], actual[observed][:, None, None]
    if weight is None:
        return loss(output, actual)
    weight, each = weight[..., None].expand_as(observed)[observed], torch.vmap(loss)(output[:, None], actual[:, None])
    return (weight * each).sum() / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)  # all may be zero


def observed_share(actual: Float[Tensor, "b pred_len n"], weight: Float[Tensor, "b pred_len"] | None = None) -> float:
    """Number of windows of a batch, each weighted by the share of its actual values that is observed, and by the
    weights of its rows."""
    counts = ~actual.isnan() if weight is None else ~actual.isnan() * weight[..., None]
    return float(counts.sum()) / actual[0].numel()


@torch.inference_mode()
def mean_loss(
    forecast: Callable[[Batch], Tensor],
    windows: Windows,
    loss: Loss,
    batch_size: int,
    *,
    processes: Processes = Processes(),  # noqa: B008 (it cannot change)
    pause: Callable[[], None] = lambda: None,
) -> float:
    """Loss with equal weight per observed value, or that of its row; `pause` is called between batches.

    Each process evaluates some of the batches; the result is bit-identical for any number of processes.
    """
    batches = torch.arange(len(windows)).split(batch_size)
    sums = torch.zeros(len(batches), device=windows.starts.device)
    counts = torch.zeros_like(sums)
    for i in range(processes.rank, len(batches), processes.size):
        batch = windows.batch(batches[i])
        counts[i] = len(batches[i]) if windows.store.counts_equal else observed_share(*batch.actual)
        sums[i] = loss(forecast(batch).float(), *batch.actual) * counts[i]
        pause()
    n = len(windows) if windows.store.counts_equal else processes.sum(counts).sum().item()
    return processes.sum(sums).sum().item() / n


def spectral(
    forecast: Float[Tensor, "b pred_len n"], actual: Float[Tensor, "b pred_len n"], *, alpha: float
) -> Float[Tensor, ""]:
    """MAE plus alpha times the mean size of the error's Fourier coefficients over the horizon.

    The coefficients are less correlated than the errors of neighbouring steps. H. Wang et al., "FreDF: Learning to
    Forecast in the Frequency Domain", ICLR 2025, equation 4. They are scaled by 1 / sqrt(pred_len), so that alpha has
    the same effect for every horizon.
    """
    return F.l1_loss(forecast, actual) + alpha * torch.fft.rfft(forecast - actual, dim=1, norm="ortho").abs().mean()


def pinball(quantile: Tensor, actual: Tensor, level: float) -> Tensor:
    """max(level e, (level - 1) e) of the error e = actual - quantile; its mean is minimal at the level's quantile."""
    error = actual - quantile
    return torch.maximum(level * error, (level - 1) * error)


def mean_pinball(
    quantiles: Float[Tensor, "b pred_len n q"], actual: Float[Tensor, "b pred_len n"], *, levels: Sequence[float]
) -> Float[Tensor, ""]:
    """Mean over levels and values of `pinball`."""
    losses = [pinball(values, actual, level).mean() for values, level in zip(quantiles.unbind(-1), levels, strict=True)]
    return torch.stack(losses).mean()
