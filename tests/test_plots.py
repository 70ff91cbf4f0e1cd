"""Figures: what is drawn, at which times, the column that matters most among many, and the same bytes each time."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from entry_points import ROOT, SMALL, TENSORBOARD, done, refusal
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from informer.base.plots import plot_attention, plot_forecast, plot_losses, save_figure

SAMPLE = ROOT / "data/sample.csv"


def frame(start, rows, columns, freq="h", tz=None):
    values = np.random.default_rng(rows).normal(size=(rows, len(columns)))
    return pd.DataFrame(values, index=pd.date_range(start, periods=rows, freq=freq, tz=tz), columns=columns)


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_forecast_panels_show_each_column_at_its_own_times():
    columns = ["OT", "US$_$", "_hidden"]
    history, forecast = frame("2020-01-01", 100, columns), frame("2020-01-05 04:00", 5, columns)
    figure = plot_forecast(history, forecast, bands={"interval": (forecast - 1, forecast + 2)}, title="in $^$")
    assert [axes.get_title("left") for axes in figure.axes] == columns
    for axes, column in zip(figure.axes, columns, strict=True):
        drawn = lines(axes)
        np.testing.assert_array_equal(drawn["forecast"].get_ydata(), forecast[column])
        np.testing.assert_array_equal(drawn["forecast"].get_xdata(), forecast.index)
        np.testing.assert_array_equal(drawn["history"].get_ydata(), history[column][-48:])
    figure.savefig(io.BytesIO(), format="png")  # dollar signs are not mathematics


def test_losses_are_curves_and_baselines_are_levels():
    """Red if a curve is shifted by an epoch, or a baseline is drawn at another value than its loss."""
    training, validation, baselines = {1: 0.5, 2: 0.3}, {0: 0.45, 1: 0.4, 2: 0.42}, {"naive": 0.6, "ridge": 0.41}
    figure = plot_losses(training, validation, baselines, units="MSE, scaled", note="of a test")
    (axes,) = figure.axes
    drawn = lines(axes)
    for name, curve in (("training", training), ("validation", validation), ("best: epoch 1", {1: 0.4})):
        assert dict(zip(drawn[name].get_xdata(), drawn[name].get_ydata(), strict=True)) == curve
    assert {name: set(drawn[name].get_ydata()) for name in baselines} == {name: {at} for name, at in baselines.items()}
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("MSE, scaled", "epoch (of a test)")
    assert axes.get_yscale() == "linear"
    assert plot_losses({1: 9.0}, {1: 0.1}, {}, units="").axes[0].get_yscale() == "log"


def test_many_columns_are_cut_and_the_heading_says_so():
    columns = [f"c{i}" for i in range(20)]
    figure = plot_forecast(frame("2020", 50, columns), frame("2020-02", 3, columns), title="load")
    assert len(figure.axes) == 12
    assert figure.get_suptitle() == "load (12 of 20 columns)"
    assert [axes.get_title("left") for axes in figure.axes] == [*columns[:11], "c19"]


def test_attention_is_a_map_for_each_window_and_head():
    weights = np.random.default_rng(0).uniform(-1.0, 0.5, size=(2, 3, 4, 5))
    figure = plot_attention(weights, lengths=(40, 100), rows=["window 7", "window $9$"], layer_name="encoder 1.2")
    assert figure.get_suptitle() == "encoder 1.2: 40 queries, 100 keys"
    assert len(figure.axes) == 6
    for axes, cells in zip(figure.axes, weights.reshape(6, 4, 5), strict=True):
        (image,) = axes.get_images()
        np.testing.assert_array_equal(image.get_array(), cells)
        assert list(image.get_extent()) == [-0.5, 99.5, 39.5, -0.5]
        largest = abs(cells).max()
        assert (image.norm.vmin, image.norm.vmax) == (-largest, largest)
    assert [axes.get_title("left")[:6] for axes in figure.axes] == ["head 1", "head 2", "head 3"] * 2
    assert [axes.get_ylabel() for axes in figure.axes[::3]] == ["window 7\nquery", "window $9$\nquery"]
    (image,) = plot_attention(weights + 1, lengths=(40, 100), rows=["a", "b"], layer_name="").axes[0].get_images()
    assert image.norm.vmin == 0
    figure.savefig(io.BytesIO(), format="png")


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    for name in ("a.png", "b.png"):
        history, forecast = frame("2020", 60, ["y"]), frame("2020-02", 6, ["y"])
        save_figure(plot_forecast(history, forecast, title="y"), tmp_path / name)
    content = (tmp_path / "a.png").read_bytes()
    assert content == (tmp_path / "b.png").read_bytes()
    assert content.startswith(b"\x89PNG")


def test_without_matplotlib_plots_say_what_to_install(trained, folder, monkeypatch):
    """Red if matplotlib is needed unasked, or if a command forecasts before it says that it cannot draw."""
    without_matplotlib(monkeypatch)
    run = f"checkpoint={trained.run_dir}"
    for words in (
        ("forecast", f"input={SAMPLE}", "plots=true"),
        ("predict", run, f"input={SAMPLE}", "plots=true"),
        ("eval", run, "plots=standard"),
    ):
        assert "pip install matplotlib" in refusal(*words, "output=out")
        assert not Path("out").exists()
    done("train", "dataset=sample", *SMALL, TENSORBOARD, "trainer.max_steps=1", "run_dir=run")
    tags = EventAccumulator("run").Reload().Tags()
    assert "val/loss" in tags["scalars"]
    assert tags["images"] == []
    assert not Path("run/losses.png").exists()


def without_matplotlib(monkeypatch):
    """As if it were not installed."""
    for name in [name for name in sys.modules if name.startswith(("matplotlib.", "informer.base.plots"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_signs_without_a_font_are_one_line_of_the_log(tmp_path, caplog):
    """Two signs of the private range, which no font has, in a title and a column's name."""
    history, ahead = frame("2024-01-01", 20, ["\ue123"]), frame("2024-01-01 20:00", 3, ["\ue123"])
    save_figure(plot_forecast(history, ahead, title="\ue124"), tmp_path / "plot.png")
    (line,) = [record.getMessage() for record in caplog.records]
    assert "\ue123\ue124" in line


def test_a_backend_that_does_not_exist_is_one_line(folder):
    """Red if what matplotlib says of its settings is a traceback."""
    words = [sys.executable, "-m", "informer", "forecast", SAMPLE, "plots=true"]
    ran = subprocess.run(words, env=os.environ | {"MPLBACKEND": "none-such"}, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert "unset MPLBACKEND" in ran.stderr
