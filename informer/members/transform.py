"""Windows to the inputs of a network, and its outputs back to forecasts; the same for every family.

In this order, each of which can be switched on separately: categories become learned vectors (Guo & Berkhahn 2016,
"Entity Embeddings of Categorical Variables"), a learned vector of the series is appended to every row, columns are
normalised (Kim et al. 2022, "Reversible Instance Normalization"), each target gets a window of its own, and rows are
joined to patches (both: Nie et al. 2023, "A Time Series is Worth 64 Words").

A column of codes becomes d columns: code k becomes w_k - mean(w), code 0 becomes 0. So a category that training did not
contain is treated as the mean of all categories, and one that is not known ahead (0 in windows) adds nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, final

import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from informer.networks.models.base import DecMarks, DecValues, EncMarks, EncValues, ModelDims
from informer.networks.ops.gaps import weights_of

EPSILON = 1e-5
"""Added to the variance of a window, which is zero in a constant window."""

MOST_WIDTH = 50


def width_of(n: int) -> int:
    """Columns for n categories: min(50, (n + 1) // 2), the rule of the fastai library (Howard & Gugger 2020)."""
    return min(MOST_WIDTH, (n + 1) // 2)


@final
class CategoryEmbedding(nn.Module):
    """Embedding of the codes of one column.

    Args:
        n: number of categories, with codes 1 to n.
        width: length of a vector.
    """

    def __init__(self, n: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n, width))
        nn.init.normal_(self.weight)

    def forward(self, codes: Int[Tensor, " *b"]) -> Float[Tensor, "*b d"]:
        """The vector of each code; zero for code 0."""
        return torch.cat([self.weight.new_zeros(1, self.weight.shape[1]), self.weight - self.weight.mean(dim=0)])[codes]


@final
class CategoryColumns(nn.Module):
    """Replaces columns of codes by their vectors; shared by encoder and decoder.

    Numeric columns come first, then the vectors of each categorical column in turn.

    Args:
        sizes: number of categories of each column, 0 for a numeric one.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.numbers = [column for column, size in enumerate(sizes) if not size]
        self.codes = [column for column, size in enumerate(sizes) if size]
        self.tables = nn.ModuleList(CategoryEmbedding(sizes[column], width_of(sizes[column])) for column in self.codes)
        self._places = {column: range(new, new + 1) for new, column in enumerate(self.numbers)}
        self.width = len(self.numbers)
        for column in self.codes:
            self._places[column] = range(self.width, self.width + width_of(sizes[column]))
            self.width = self._places[column].stop

    def positions(self, columns: Iterable[int]) -> tuple[int, ...]:
        """Positions of some columns among those that are returned; a column of codes has several."""
        return tuple(position for column in columns for position in self._places[column])

    def forward(self, x: Float[Tensor, "b l c"]) -> Float[Tensor, "b l width"]:
        """Numeric columns and vectors of each row."""
        if not self.codes:
            return x
        columns = x.unbind(dim=2)
        vectors = [table(columns[column].long()) for table, column in zip(self.tables, self.codes, strict=True)]
        return torch.cat([x[:, :, self.numbers], *(vector.to(x.dtype) for vector in vectors)], dim=2)


class NetworkInputs(NamedTuple):
    """Inputs of the network for a batch, and what its outputs are multiplied with and added to."""

    enc_x: Tensor
    enc_mark: Tensor
    dec_x: Tensor
    dec_mark: Tensor
    mean: Tensor | None
    """Mean and standard deviation of each target over its window [b 1 n]; None: not normalised."""
    scale: Tensor | None


@final
class WindowTransform(nn.Module):
    """Transforms windows before the network, and the network's output back to the scale of the windows.

    Args:
        dims: sizes of the windows.
        instance_norm: centre and scale each column of a window by its mean and standard deviation in the lookback
            window, over observed values; not known columns, because their future may differ from it (a holiday after
            weeks without one).
        channel_independent: make one window per target, each with all columns that are not targets.
        patch_len: rows of a token, which has the calendar marks of its last row.
        series_embedding: width of the vector of a series; 0: none.
    """

    targets: Tensor
    others: Tensor
    shown: Tensor
    given_ahead: Tensor

    def __init__(
        self,
        dims: ModelDims,
        *,
        instance_norm: bool = False,
        channel_independent: bool = False,
        patch_len: int = 1,
        series_embedding: int = 0,
    ) -> None:
        super().__init__()
        self.instance_norm, self.channel_independent = instance_norm, channel_independent
        self.patch_len, self.label_len, self.n_targets = patch_len, dims.label_len, dims.c_out
        self.categories = CategoryColumns(dims.categories or (0,) * dims.enc_in)
        self.series = CategoryEmbedding(dims.n_series, series_embedding) if series_embedding else None
        positions, n_inputs = self.categories.positions, self.categories.width + series_embedding
        targets = positions(dims.target_positions)
        self.masked, self.masks = positions(dims.masked or ()), positions(dims.masks)
        # embedding vectors are not normalised, nor are masks; vectors are zero where a category is not known ahead
        vectors = (*positions(self.categories.codes), *range(self.categories.width, n_inputs))
        known = {*positions(dims.known), *vectors, *self.masks}
        mask_of = dict(zip(self.masked, self.masks, strict=True))
        # targets without gaps use a column of ones, appended after all others
        self.own_masks = [mask_of.get(at, n_inputs) for at in targets] if {*targets} & {*self.masked} else []
        others = [at for at in range(n_inputs) if at not in {*targets, *self.own_masks}]
        given_ahead = torch.tensor([at in known for at in range(n_inputs)])
        shown = torch.ones(dims.dec_len, n_inputs)
        shown[dims.label_len :] = given_ahead.float()
        for name, tensor in (
            ("targets", torch.tensor(targets)), ("others", torch.tensor(others).long()), ("shown", shown),
            ("given_ahead", given_ahead),
        ):  # fmt: skip
            self.register_buffer(name, tensor, persistent=False)
        columns = [*targets[:1], *self.own_masks[:1], *others] if self.channel_independent else [*range(n_inputs)]
        self.inside = self._inside(dims, targets, columns)
        """Sizes of what the network reads and returns."""

    def _inside(self, dims: ModelDims, targets: Sequence[int], columns: Sequence[int]) -> ModelDims:
        """Sizes inside, with these columns in each row of a token (of all targets only the first, if independent)."""
        place = {column: new for new, column in enumerate(columns)}

        def tokens(wanted: Iterable[int]) -> tuple[int, ...]:
            inside = [place[column] for column in wanted if column in place]
            return tuple(row * len(columns) + at for row in range(self.patch_len) for at in inside)

        masked = [pair for pair in zip(self.masked, self.masks, strict=True) if pair[0] in place and pair[1] in place]
        if self.channel_independent and self.own_masks:
            masked = [(targets[0], self.own_masks[0]), *(pair for pair in masked if pair[0] not in targets)]
        return replace(
            dims,
            enc_in=self.patch_len * len(columns),
            c_out=self.patch_len * (1 if self.channel_independent else dims.c_out),
            seq_len=dims.seq_len // self.patch_len,
            label_len=dims.label_len // self.patch_len,
            pred_len=dims.pred_len // self.patch_len,
            targets=tokens(targets),
            known=tokens(self.categories.positions(dims.known)),
            masked=tokens(column for column, _ in masked),
            mask_positions=tokens(mask for _, mask in masked),
            categories=(),
            regressors=(),
            known_codes=(),
        )

    def forward(
        self,
        enc_x: EncValues,
        enc_mark: EncMarks,
        dec_x: DecValues,
        dec_mark: DecMarks,
        series: Int[Tensor, " b"] | None = None,
    ) -> NetworkInputs:
        """Network inputs for windows."""
        enc_x, dec_x = (self._embedded(x, series) for x in (enc_x, dec_x))
        target_mean = target_scale = None
        if self.instance_norm:
            weights = [weights_of(x, self.masked, self.masks) if self.masked else None for x in (enc_x, dec_x)]
            mean, scale = mean_std(enc_x, weights[0])
            target_mean, target_scale = (x.index_select(2, self.targets) for x in (mean, scale))
            mean, scale = mean.masked_fill(self.given_ahead, 0.0), scale.masked_fill(self.given_ahead, 1.0)
            enc_x, dec_x = (enc_x - mean) / scale, (dec_x - mean) / scale * self.shown
            enc_x, dec_x = (x if w is None else x * w for x, w in zip((enc_x, dec_x), weights, strict=True))
        if self.channel_independent:
            shown = self.shown[:, self.targets[:1]]
            enc_x = self._split_channels(enc_x, torch.ones_like(enc_x[0, :, :1]))
            dec_x = self._split_channels(dec_x, shown)
            enc_mark, dec_mark = (repeat(x, "b l m -> (b n) l m", n=self.n_targets) for x in (enc_mark, dec_mark))
        if self.patch_len > 1:
            enc_x, dec_x = (self._patches(x) for x in (enc_x, dec_x))
            enc_mark, dec_mark = (x[:, self.patch_len - 1 :: self.patch_len] for x in (enc_mark, dec_mark))
        return NetworkInputs(enc_x, enc_mark, dec_x, dec_mark, target_mean, target_scale)

    def of_targets(self, values: Float[Tensor, "b pred_len n"], inputs: NetworkInputs) -> Float[Tensor, "bn t pc"]:
        """Values of the targets over the horizon, in the form and scale of the network's outputs."""
        if inputs.mean is not None and inputs.scale is not None:
            values = (values - inputs.mean) / inputs.scale
        if self.channel_independent:
            values = rearrange(values, "b l n -> (b n) l 1")
        return self._patches(values) if self.patch_len > 1 else values

    def fed(
        self, token: Float[Tensor, "bn 1 pc"], values: Float[Tensor, "b p n"], inputs: NetworkInputs
    ) -> Float[Tensor, "bn 1 pc"]:
        """A token of the decoder's input in which the rows hold these values of the targets, as observed ones."""
        targets = self.inside.target_positions
        mask_of = dict(zip(self.inside.masked or (), self.inside.masks, strict=True))
        masks = [mask_of[target] for target in targets if target in mask_of]
        given = self.of_targets(values, inputs).to(token.dtype)
        token = token.index_copy(2, torch.tensor(targets, device=token.device), given)
        return token.index_fill(2, torch.tensor(masks, device=token.device), 1.0) if masks else token

    def undo(self, out: Float[Tensor, "bn t pc *q"], inputs: NetworkInputs) -> Float[Tensor, "b pred_len n *q"]:
        """Network output in the scale of the windows, without adding their mean."""
        if self.patch_len > 1:
            out = rearrange(out, "b t (p c) ... -> b (t p) c ...", p=self.patch_len)
        if self.channel_independent:
            out = rearrange(out, "(b n) l 1 ... -> b l n ...", n=self.n_targets)
        return out if inputs.scale is None else out * with_quantile_axis(inputs.scale, out)

    def _embedded(self, x: Tensor, series: Tensor | None) -> Tensor:
        """Columns with vectors instead of codes, then that of the series: the mean of all for -1, not in training."""
        x = self.categories(x)
        if self.series is None:
            return x
        assert series is not None, "see `ForecastModel.reads_series`"
        vectors = self.series(series + 1).to(x.dtype)
        return torch.cat([x, vectors[:, None].expand(-1, x.shape[1], -1)], dim=2)

    def _split_channels(self, x: Tensor, shown: Float[Tensor, "l 1"]) -> Tensor:
        """One window per target; `shown` is 1 in rows with given targets, and is the mask of targets without gaps."""
        covariates = repeat(x.index_select(2, self.others), "b l m -> (b n) l m", n=self.n_targets)
        columns = [rearrange(x.index_select(2, self.targets), "b l n -> (b n) l 1")]
        if self.own_masks:
            masks = torch.cat([x, shown.expand(len(x), -1, -1).to(x.dtype)], dim=2)[:, :, self.own_masks]
            columns.append(rearrange(masks, "b l n -> (b n) l 1"))
        return torch.cat([*columns, covariates], dim=2)

    def _patches(self, x: Tensor) -> Tensor:
        return rearrange(x, "b (t p) c -> b t (p c)", p=self.patch_len)


def mean_std(
    history: Float[Tensor, "b l c"], weights: Float[Tensor, "b l c"] | None = None
) -> tuple[Float[Tensor, "b 1 c"], Float[Tensor, "b 1 c"]]:
    """Mean and standard deviation of each column of each window, over values with weight 1 (None: all values)."""
    if weights is None:
        variance, mean = torch.var_mean(history, dim=1, keepdim=True, correction=0)
    else:
        n = weights.sum(dim=1, keepdim=True).clamp(min=1)
        mean = (history * weights).sum(dim=1, keepdim=True) / n
        variance = ((history - mean).square() * weights).sum(dim=1, keepdim=True) / n
    return mean, (variance + EPSILON).sqrt()


def with_quantile_axis(forecast: Shaped[Tensor, "b l n"], out: Float[Tensor, "b pred_len n *q"]) -> Tensor:
    """`forecast`, with a last axis of size 1 if `out` has a quantile axis, so that they broadcast."""
    return forecast if out.ndim == forecast.ndim else forecast[..., None]
