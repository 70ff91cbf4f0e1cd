"""scripts/import_informer2020.py: their file in, our checkpoint out, the same forecast from it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import ROOT, script
from test_compat import informer2020_state

from informer import Forecaster, checkpoint
from informer.checkpoint import restore_model

importer = script("import_informer2020")
SIZES = {"seq_len": 20, "label_len": 7, "out_len": 5, "d_model": 8, "n_heads": 2, "d_ff": 16, "d_layers": 1}


def flags(features: str, target: str, *extra: str) -> list[str]:
    sizes = {name if name != "out_len" else "pred_len": value for name, value in SIZES.items()}
    pairs = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    return ["--data", "custom", "--features", features, "--target", target, *pairs, "--attn", "full", *extra]


def sinusoids(length: int, width: int) -> torch.Tensor:
    """Their positional table, which is not trained."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return torch.tensor(np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width), dtype=torch.float32)


@pytest.mark.parametrize("features", ["S", "MS"])
def test_forecast_of_the_imported_checkpoint(tmp_path: Path, features: str, capsys) -> None:
    """Red if columns are not in their loader's order, or the scaler saw other rows than the first 70 percent."""
    frame = pd.read_csv(ROOT / "data/sample.csv")
    time, *columns = frame.columns
    target = columns[0]
    theirs = [target] if features == "S" else [*columns[1:], target]
    config = SIZES | {
        "enc_in": len(theirs), "dec_in": len(theirs), "c_out": 1,
        "e_layers": 2, "attn": "full", "embed": "timeF", "freq": "h", "mix": False,
    }  # fmt: skip
    state = {name: value.float() for name, value in informer2020_state(config).items()}
    for side in ("enc", "dec"):
        state[f"{side}_embedding.position_embedding.pe"] = sinusoids(5000, 8)[None]
    torch.save({f"module.{name}": value for name, value in state.items()}, tmp_path / "checkpoint.pth")
    paths = [str(tmp_path / "checkpoint.pth"), str(tmp_path / "run"), "--csv", str(ROOT / "data/sample.csv")]
    importer.main([*paths, "--", *flags(features, target, "--mix", "--itr", "5")])
    assert "ignored: --itr 5" in capsys.readouterr().out
    forecast = Forecaster.load(tmp_path / "run").predict(frame)

    values = frame[theirs].to_numpy()
    fitted = values[: int(0.7 * len(values))]
    scaled = (values[-20:] - fitted.mean(0)) / fitted.std(0)
    stamps = pd.DatetimeIndex(pd.to_datetime(frame[time]))[-20:]
    stamps = stamps.append(pd.date_range(stamps[-1], periods=6, freq="h")[1:])
    parts = [(stamps.hour, 23, 0), (stamps.day_of_week, 6, 0), (stamps.day, 30, 1), (stamps.day_of_year, 365, 1)]
    marks = np.stack([(np.asarray(part, float) - first) / span - 0.5 for part, span, first in parts], axis=1)
    decoder = np.concatenate([scaled[-7:], np.zeros((5, len(theirs)))])
    batch = [torch.tensor(x[None], dtype=torch.float32) for x in (scaled, marks[:20], decoder, marks[13:])]
    with torch.inference_mode():
        expected = restore_model(checkpoint.load(tmp_path / "run")).eval()(*batch)[0].numpy()
    expected = expected * fitted.std(0)[-1] + fitted.mean(0)[-1]
    assert list(forecast.columns) == [time, target]
    np.testing.assert_allclose(forecast.iloc[:, 1:].to_numpy(), expected, rtol=1e-3, atol=1e-3)


def test_weights_that_do_not_fit_the_file_are_refused(tmp_path: Path, capsys) -> None:
    """Red if column counts are not compared."""
    config = SIZES | {"enc_in": 2, "dec_in": 2, "c_out": 2, "e_layers": 2, "attn": "full", "embed": "timeF"}
    torch.save(informer2020_state(config), tmp_path / "checkpoint.pth")
    paths = [str(tmp_path / "checkpoint.pth"), str(tmp_path / "run"), "--csv", str(ROOT / "data/sample.csv")]
    with pytest.raises(SystemExit, match="2"):
        importer.main([*paths, "--", *flags("M", pd.read_csv(ROOT / "data/sample.csv").columns[1])])
    assert "the weights take 2, 2 and 4" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", [b"junk\n", b"date,a\n2020-01-01,1\n", b"PK\x03\x04cut short", None])
def test_what_is_no_checkpoint_is_one_line(content: bytes | None, tmp_path: Path, capsys) -> None:
    path = tmp_path / "checkpoint.pth"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit, match="2"):
        importer.main([str(path), str(tmp_path / "run"), "--csv", str(ROOT / "data/sample.csv")])
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "checkpoint.pth" in err


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A good file of theirs for the two columns of a table."""
    columns = "date,a,b\n" + "".join(f"{time},{i % 24},{i % 7}\n" for i, time in enumerate(HOURS))
    (tmp_path / "table.csv").write_text(columns)
    config = SIZES | {"enc_in": 2, "dec_in": 2, "c_out": 2, "e_layers": 2, "attn": "full", "embed": "timeF"}
    torch.save(informer2020_state(config), tmp_path / "checkpoint.pth")
    return tmp_path


HOURS = pd.date_range("2024-01-01", periods=200, freq="h")


def refused(folder: Path, capsys, *extra: str) -> str:
    """The one line on standard error; nothing is written."""
    paths = [str(folder / "checkpoint.pth"), str(folder / "run"), "--csv", str(folder / "table.csv")]
    with pytest.raises(SystemExit, match="2"):
        importer.main([*paths, "--", *flags("M", "b", *extra)])
    err = capsys.readouterr().err
    assert (err.startswith("error: "), err.count("\n")) == (True, 1), err
    assert not (folder / "run").exists()
    return err


@pytest.mark.parametrize(
    ("extra", "part"),
    [
        (["--model", "informerstack", "--s_layers", "1000000000"], "layers, but only"),
        (["--d_model", "10000000", "--n_heads", "1"], "do not fit the network"),
        (["--n_heads", "3"], "multiple of model.n_heads=3"),
        (["--dropout", "nan"], "model.dropout"),
        (["--seq_len", "1000000000"], "seq_len: expected at most 10000000"),
        (["--label_len", "-5"], "label_len"),
        (["--freq", "nonsense"], "freq"),
        (["--attn", "prop"], "attn"),
        (["--attn", "prob", "--factor", "0"], "factor"),
        (["--target", "missing"], "missing"),
    ],
)
def test_arguments_that_make_no_network_are_one_line(theirs: Path, capsys, extra: list[str], part: str) -> None:
    """Red if a size is believed before it was compared with the weights, or an error gets through as a traceback."""
    assert part in refused(theirs, capsys, *extra)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: [1, 2],
        lambda state: {1: torch.ones(1)},
        lambda state: state | {"projection.weight": 3},
        lambda state: state | {"projection.bias": torch.full((2,), torch.nan)},
        lambda state: state | {"projection.bias": torch.ones(3)},
        lambda state: state | {"enc_embedding.position_embedding.pe": torch.ones(1, 3, 8)},
        lambda state: {name: value for name, value in state.items() if "norm" not in name},
    ],
)
def test_states_that_are_not_theirs_are_one_line(theirs: Path, capsys, change) -> None:
    state = torch.load(theirs / "checkpoint.pth", weights_only=True)
    torch.save(change(state), theirs / "checkpoint.pth")
    refused(theirs, capsys)


def test_an_import_overwrites_nothing(theirs: Path, capsys) -> None:
    """Red if a run that is there is replaced, or the file itself."""
    (theirs / "run").mkdir()
    (theirs / "checkpoint.pth").rename(theirs / "run" / "best.safetensors")
    before = (theirs / "run" / "best.safetensors").read_bytes()
    more = [str(theirs / "run"), "--csv", str(theirs / "table.csv"), "--", *flags("M", "b")]
    for pth, part in (
        ("run/best.safetensors", "overwrite the input"),
        ("absent.pth", "expected a new or empty folder"),
    ):
        with pytest.raises(SystemExit, match="2"):
            importer.main([str(theirs / pth), *more])
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert part in err
    assert (theirs / "run" / "best.safetensors").read_bytes() == before
