"""Missing values of windows against pandas and loops."""

import numpy as np
import pandas as pd
import pytest
import torch

from informer.networks.ops.gaps import carried, history_of, with_masks


def holed(shape: tuple[int, ...], share: float, seed: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=draw)
    return values.masked_fill(torch.rand(shape, generator=draw) < share, torch.nan)


@pytest.mark.parametrize("length", [1, 2, 5, 16, 23])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_values_are_carried_as_pandas_carries_them(length: int, share: float) -> None:
    """Red if a value moves past an observed one, or too short a way."""
    x = holed((4, length, 3), share)
    filled = carried(x, ~x.isnan())
    for window, own in zip(x.numpy(), filled.numpy(), strict=True):
        np.testing.assert_array_equal(own, pd.DataFrame(window).ffill().bfill().fillna(0.0))
    np.testing.assert_array_equal(history_of(x), filled)


def test_complete_windows_are_what_they_were() -> None:
    x = torch.randn(2, 7, 3)
    assert history_of(x) is x


def test_a_mask_says_what_the_network_reads() -> None:
    """By loops: zeros and a mask where columns have gaps, the last value in others; the horizon is not observed."""
    seq_len, label_len, pred_len, masked, known = 6, 3, 2, (0, 2), (2,)
    enc, horizon = holed((5, seq_len, 4), 0.4), torch.zeros(5, pred_len, 4)
    horizon[:, :, 2] = holed((5, pred_len), 0.5, seed=1)
    dec = torch.cat([enc[:, -label_len:], horizon], dim=1)
    found_enc, found_dec = with_masks(enc, dec, masked, known=known, label_len=label_len)
    whole = history_of(enc)
    for found, given, stand_ins in (
        (found_enc, enc, whole),
        (found_dec, dec, torch.cat([whole[:, -label_len:], horizon], 1)),
    ):
        assert found.shape[2] == 6
        for b, row, column in np.ndindex(*given.shape):
            value = given[b, row, column]
            is_ahead = found is found_dec and row >= label_len
            if column in masked:
                mask = 4 + masked.index(column)
                is_known = not value.isnan() and (not is_ahead or column in known)
                assert found[b, row, mask] == float(is_known)
                assert found[b, row, column] == (0.0 if value.isnan() else value)
            else:
                assert found[b, row, column] == stand_ins[b, row, column]
