"""Common file formats are detected; ambiguous content is an error."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dataset_cases import made, write
from stores import read_series

from informer import InputError
from informer.config.data import DatasetConfig, Fill
from informer.config.model import WindowSizes
from informer.data.panel import read_panel


def test_what_was_found_is_logged_where_it_is_not_common(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "informer")
    sizes = WindowSizes(seq_len=4, label_len=2, pred_len=1)
    read_panel([write(made(30), tmp_path / "f.csv")], DatasetConfig(), sizes)
    assert caplog.text == ""
    made(30).rename(columns={"a": "größe"}).to_csv(
        tmp_path / "f.csv", index=False, sep=";", decimal=",", encoding="latin-1"
    )
    read_panel([tmp_path / "f.csv"], DatasetConfig(), sizes)
    assert caplog.messages == ["f.csv: separator ';', decimal mark ',', encoding latin-1"]


DAYS = [f"2024-01-{day:02d}" for day in range(1, 31)]
AMOUNTS = {
    "${:,.2f}": "$", "-${:,.2f}": "$", "$ {:,.0f}": "$", "({:,.2f})": "brackets", "(${:,.0f})": "$", "{:.2f}%": "%",
    "{:.1f} %": "%", "\u2212{:.2f}": "signs of print", "{:.1f} kW": "kW", "{:.1f} m/s": "m/s", "{:,.0f} USD": "USD",
    "USD {:,.2f}": "USD", "{:.2f}-": "signs of print", "\u00a3{:.0f}": "\u00a3", "{:.1f}\u00b0C": "\u00b0C",
}  # fmt: skip


@pytest.mark.parametrize("european", [False, True])
@pytest.mark.parametrize("written", AMOUNTS)
def test_amounts_are_numbers(written: str, european: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Red if a sign, a mark or a factor of a thousand is lost, or what is left out is not said."""
    caplog.set_level("INFO", "informer")
    numbers = np.array([1234.5, 53000.25, 12.75, 1000000.0, *range(100, 120)])
    numbers = numbers.round(int(written.partition(".")[2][:1]))
    cells = [written.format(number) for number in numbers]
    if european:
        cells = [cell.translate(str.maketrans(",.", ".,")) for cell in cells]
    frame = pd.DataFrame({"date": DAYS[:24], "y": cells})
    frame.loc[20, "y"] = None
    frame.to_csv(tmp_path / "f.csv", index=False, sep=";" if european else ",")
    series = read_series(tmp_path / "f.csv", DatasetConfig(fill=Fill.mask))
    negative = written[0] in "-(\u2212" or written.endswith("-")
    expected = np.where(np.arange(24) == 20, np.nan, -numbers if negative else numbers)
    np.testing.assert_allclose(series.values[:, 0], expected)
    assert AMOUNTS[written] in caplog.text


def test_the_command_for_empty_cells_between_blanks_works(tmp_path: Path) -> None:
    """The proposed command is run; red if the file that it writes has other cells."""
    rows = [f"{day}  {'' if i == 5 else i:>4}  {2 * i:>4}" for i, day in enumerate(DAYS)]
    (tmp_path / "f.txt").write_text("\n".join(["date           a     b", *rows]))
    with pytest.raises(InputError, match="separated by blanks, and some cells to be empty") as error:
        read_series(tmp_path / "f.txt", DatasetConfig())
    assert "pandas.read_fwf('f.txt').to_csv('table.csv', index=False)" in str(error.value)
    pd.read_fwf(tmp_path / "f.txt").to_csv(tmp_path / "table.csv", index=False)
    read = read_series(tmp_path / "table.csv", DatasetConfig(fill=Fill.mask)).values
    np.testing.assert_array_equal(read, [[np.nan if i == 5 else i, 2 * i] for i in range(30)])
