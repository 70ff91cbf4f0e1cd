"""Embeddings against the formulas."""

import math

import pytest
import torch

from informer.networks.layers.embedding import CalendarEmbedding, Embedding, sinusoid_table


@pytest.mark.parametrize(("length", "width"), [(1, 1), (7, 5), (6000, 8)])
def test_sinusoids(length: int, width: int) -> None:
    """Red if sine and cosine change places, the rate is off, or odd widths and long inputs fail."""
    table = sinusoid_table(length, width)
    assert table.shape == (length, width)
    for row in {0, length // 2, length - 1}:
        for column in range(width):
            angle = row / 10000 ** (2 * (column // 2) / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert table[row, column].item() == pytest.approx(expected, abs=1e-5)


def test_fixed_marks_look_up_sinusoids() -> None:
    """Red if a mark column reads another column's table."""
    embed = CalendarEmbedding(6, "fixed", (13, 24))
    marks = torch.tensor([[[12.0, 23.0], [1.0, 0.0]]])
    tables = sinusoid_table(24, 6)
    torch.testing.assert_close(embed(marks)[0], torch.stack([tables[12] + tables[23], tables[1] + tables[0]]))
    assert not list(embed.parameters())


def test_learned_marks_look_up_their_own_table() -> None:
    """Red if tables are shared between columns."""
    embed = CalendarEmbedding(6, "learned", (13, 24))
    marks = torch.tensor([[[12.0, 23.0]]])
    expected = embed.tables[0].weight[12] + embed.tables[1].weight[23]
    torch.testing.assert_close(embed(marks)[0, 0], expected)


def test_embedding_is_the_sum_of_its_parts() -> None:
    """Red if a part is left out; odd width and a length beyond 5000 work."""
    torch.manual_seed(0)
    embed = Embedding(n_values=3, d_model=7, length=5003, kind="timeF", mark_sizes=(1, 1), dropout=0.0).double()
    x, marks = torch.randn(1, 5003, 3, dtype=torch.float64), torch.randn(1, 5003, 2, dtype=torch.float64)
    calendar = marks @ embed.calendar.project.weight.T + embed.calendar.project.bias
    row = 4001
    taps = sum(x[0, row - 1 + tap] @ embed.value.weight[:, :, tap].T for tap in range(3)) + embed.value.bias
    expected = taps + sinusoid_table(5003, 7).double()[row] + calendar[0, row]
    torch.testing.assert_close(embed(x, marks)[0, row], expected)


def test_without_a_calendar_values_and_places_are_all() -> None:
    """Red if something is added, or learned, for missing marks."""
    embed = Embedding(n_values=2, d_model=4, length=6, kind="none", mark_sizes=(), dropout=0.0)
    x = torch.randn(3, 6, 2)
    torch.testing.assert_close(embed(x, torch.empty(3, 6, 0)), embed.value(x) + sinusoid_table(6, 4))
    assert {name for name, _ in embed.named_parameters()} == {"value.weight", "value.bias"}
