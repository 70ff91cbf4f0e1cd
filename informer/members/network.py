"""The whole model around a network, the same for every family: transform, network, linear maps, bounds."""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from informer.data.windows import Batch
from informer.members.maps import LinearMaps
from informer.members.transform import NetworkInputs, WindowTransform, with_quantile_axis
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.distribution_head import DistributionHead
from informer.networks.models.base import DecMarks, DecValues, EncMarks, EncValues, ModelDims, Network, point
from informer.networks.models.config import ModelConfig
from informer.networks.ops.gaps import history_of


@final
class ForecastModel(nn.Module):
    """forecast = bound(start + transform^-1(network(transform(windows)))).

    `start` is the forecast of the maps, if there are any, otherwise the mean of a normalised window.
    With `config.step_rows` the horizon is forecast step by step (see `_step_by_step`).

    Args:
        config: sizes and parts that the user chooses.
        dims: sizes that depend on the data.
        network: the network, with its transform; None: the forecast is that of the maps.
        maps: the linear part, if there is one.
    """

    non_negative: tuple[int, ...] = ()
    """Positions of the targets whose forecasts are at least zero in data units; batches then have center and scale."""

    def __init__(
        self,
        config: ModelConfig,
        dims: ModelDims,
        *,
        network: tuple[WindowTransform, Network] | None = None,
        maps: LinearMaps | None = None,
    ) -> None:
        super().__init__()
        self.dims, self.family, self.step_rows = dims, config.family, config.step_rows
        self.transform: WindowTransform | None = network[0] if network else None
        self.network: Network | None = network[1] if network else None
        self.maps = maps
        head = getattr(self.network, "head", None)
        self.distribution = head if isinstance(head, DistributionHead) else None
        """The head of a network that forecasts distributions."""
        levels = self.network.quantiles if self.network is not None else ()
        self.quantiles = self.distribution.levels if self.distribution is not None else levels
        """Levels of the quantiles in the last axis of the output; with counts, their mean comes after them."""

    @property
    def reads_series(self) -> bool:
        """Whether `forward` reads `series`."""
        in_transform = self.transform is not None and self.transform.series is not None
        return in_transform or (self.maps is not None and self.maps.reads_series)

    @property
    def parts(self) -> dict[str, nn.Module]:
        """Parts that have names of their own for the user."""
        owners = [module for module in (self.network, self.transform) if module is not None]
        children = [child for owner in (*owners, self) for child in owner.named_children()]
        return {name: part for name, part in children if part not in owners}

    def attention_layers(self) -> dict[str, AttentionLayer]:
        """See `Network`."""
        return {} if self.network is None else self.network.attention_layers()

    def forward(
        self,
        enc_x: EncValues,
        enc_mark: EncMarks,
        dec_x: DecValues,
        dec_mark: DecMarks,
        series: Int[Tensor, " b"] | None = None,
        actual: Float[Tensor, "b pred_len n"] | None = None,
        parameters: bool = False,
    ) -> Float[Tensor, "b pred_len n *q"]:
        """Forecast of the scaled targets, with a last axis of quantiles if the model has any.

        Args:
            enc_x, enc_mark: lookback window and its calendar marks; see `ModelDims.masked` for missing values.
            dec_x, dec_mark: last label_len rows of the lookback window followed by the horizon, and their marks. Over
                the horizon all columns are zero except those known ahead.
            series: number of each window's training series, -1 for a series that training did not contain.
            actual: actual values of the horizon, in training of a network with `LEARNS_FROM_ACTUAL`.
            parameters: return the parameters of a distribution instead of its quantiles.
        """
        if self.distribution is not None and not parameters:
            return self.distribution.quantiles(self(enc_x, enc_mark, dec_x, dec_mark, series, parameters=True))
        start = None if self.maps is None else self.maps(enc_x, enc_mark, dec_x, dec_mark, series)
        if self.network is None or self.transform is None:
            assert start is not None, "a model without a network has maps"
            return start
        if self.step_rows:
            return self._step_by_step(start, enc_x, enc_mark, dec_x, dec_mark, series)
        inputs = self.transform(enc_x, enc_mark, dec_x, dec_mark, series)
        scaled_actual = () if actual is None else (self.transform.of_targets(actual, inputs),)
        return self._whole(self.network(*inputs[:4], *scaled_actual), inputs, start, enc_x)

    def start(
        self, enc_x: Tensor, enc_mark: Tensor, dec_x: Tensor, dec_mark: Tensor, series: Tensor | None = None
    ) -> Float[Tensor, "b pred_len n"]:
        """The forecast without the network's contribution; zero, the training mean, without a linear part."""
        if self.maps is not None:
            return self.maps(enc_x, enc_mark, dec_x, dec_mark, series)
        start = enc_x.new_zeros(len(enc_x), self.dims.pred_len, self.dims.c_out)
        if self.transform is not None and self.transform.instance_norm:
            start = start + self.transform(enc_x, enc_mark, dec_x, dec_mark, series).mean
        return start

    def _whole(self, out: Tensor, inputs: NetworkInputs, start: Tensor | None, enc_x: Tensor) -> Tensor:
        """The forecast from a network's output."""
        assert self.transform is not None
        forecast = self.transform.undo(out, inputs)
        start = inputs.mean if start is None else start
        return forecast if start is None else forecast + with_quantile_axis(start, forecast)

    def _step_by_step(
        self,
        start: Tensor | None,
        enc_x: Tensor,
        enc_mark: Tensor,
        dec_x: Tensor,
        dec_mark: Tensor,
        series: Tensor | None,
    ) -> Float[Tensor, "b pred_len n *q"]:
        """Dynamic decoding: forecast the horizon step by step, each row from the rows before it.

        y_i = forecast([start token, y_1, ..., y_(i-1), 0, ...])_i. Zhou et al. 2021, section 5.3, compare this with
        their generative decoder. The encoder runs once, the decoder pred_len / step_rows times.
        """
        assert self.transform is not None
        network: Any = self.network
        inputs, n_given = self.transform(enc_x, enc_mark, dec_x, dec_mark, series), self.transform.inside.label_len
        memory = network.encode(inputs.enc_x, inputs.enc_mark)
        tokens, forecasts = list(inputs.dec_x.split(1, dim=1)), list[Tensor]()
        for at in range(len(tokens) - n_given):
            out = network.decode(memory, torch.cat(tokens, dim=1), inputs.dec_mark)[:, at : at + 1]
            rows = slice(at * self.step_rows, (at + 1) * self.step_rows)
            forecasts.append(self._whole(out, inputs, None if start is None else start[:, rows], enc_x))
            token = tokens[n_given + at]
            tokens[n_given + at] = self.transform.fed(token, network.point(forecasts[-1]), inputs)
        return torch.cat(forecasts, dim=1)


INPUTS = ("enc_x", "enc_mark", "dec_x", "dec_mark")
"""Argument names of `ForecastModel.forward` that every model reads, in order."""


def inputs_of(model: nn.Module) -> tuple[str, ...]:
    """Argument names of a model's `forward`, in order; the model may be wrapped, as for distributed training."""
    return (*INPUTS, "series") if getattr(model, "module", model).reads_series else INPUTS


def model_output(
    model: nn.Module, batch: Batch, *, with_actual: bool = False, for_loss: bool = False
) -> Float[Tensor, "b pred_len n *q"]:
    """Scaled output for a batch; all code calls models through this function.

    Args:
        model: a `ForecastModel`, or its wrapper for distributed training.
        batch: windows of data.
        with_actual: pass the actual values too, for training of a network with `LEARNS_FROM_ACTUAL`.
        for_loss: what the loss reads, which is the parameters of a distribution instead of its quantiles.
    """
    inside: Any = getattr(model, "module", model)
    inputs, head = _arguments(inside, batch), inside.distribution
    keywords = ({"actual": batch.target} if with_actual else {}) | ({} if head is None else {"parameters": True})
    output = model(*inputs, **keywords)
    if with_actual and head is None:
        return output
    if head is not None:
        output = with_counts(output, batch.units) if head.kind == "negative_binomial" else output
        if for_loss:
            return output
        output = head.quantiles(output)
    return _in_range(inside, output, batch)


def model_forecast(model: ForecastModel, batch: Batch) -> Float[Tensor, "b pred_len n"]:
    """Point forecasts of the scaled targets of a batch."""
    return point(model_output(model, batch), model.quantiles)


def forecast_without_network(model: ForecastModel, batch: Batch) -> Float[Tensor, "b pred_len n"]:
    """Point forecasts of a batch without the network's contribution."""
    return _in_range(model, model.start(*_arguments(model, batch)), batch)


def _arguments(model: ForecastModel, batch: Batch) -> tuple[Tensor, ...]:
    enc_x, dec_x = model.dims.values(batch.enc_x, batch.dec_x)
    return enc_x, batch.enc_mark, dec_x, batch.dec_mark, *((batch.series,) if model.reads_series else ())


def _in_range(model: ForecastModel, output: Tensor, batch: Batch) -> Tensor:
    """The output with constant targets continued, and at least zero where the model's targets are."""
    output = constants_held(output, batch, model.dims.target_positions)
    return at_least_zero(output, batch.units, model.non_negative) if model.non_negative else output


def with_counts(output: Float[Tensor, "b l n p"], units: Any) -> Float[Tensor, "b l n p+2"]:
    """A network's output with the scaled values of the counts 0 and 1.

    Args:
        units: the scaler's `center` and `scale` [b n].
    """
    ends = [((count - units.center) / units.scale)[:, None].to(output).expand(output.shape[:-1]) for count in (0, 1)]
    return torch.cat([output, torch.stack(ends, dim=-1)], dim=-1)


def constants_held(output: Float[Tensor, "b pred_len n *q"], batch: Batch, targets: Sequence[int]) -> Tensor:
    """Scaled forecasts, where targets that are constant in training keep their last observed value.

    Args:
        output: scaled forecasts.
        batch: has `enc_x` [b seq_len c], with NaN where missing, and perhaps `units.constant` [b n].
        targets: positions of the targets in `enc_x`.
    """
    if (constant := batch.units.constant) is None:
        return output
    last = history_of(batch.enc_x[:, :, list(targets)])[:, -1:].to(output)
    return torch.where(with_quantile_axis(constant[:, None], output), with_quantile_axis(last, output), output)


def at_least_zero(output: Float[Tensor, "b pred_len n *q"], units: Any, positions: Sequence[int]) -> Tensor:
    """Scaled forecasts, raised to at least zero in data units for the given targets.

    Args:
        output: scaled forecasts.
        units: the scaler's `center` and `scale` [b n].
        positions: positions of the targets.
    """
    is_bounded = torch.zeros(output.shape[2], dtype=torch.bool, device=output.device)
    is_bounded[list(positions)] = True
    floor = (-units.center / units.scale).to(output).masked_fill(~is_bounded, -torch.inf)
    return torch.maximum(output, with_quantile_axis(floor[:, None], output))
