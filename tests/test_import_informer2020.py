"""The authors' weights in our network, against arrays that their code made; scripts/import_informer2020.py."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import ROOT, script

from informer import Forecaster, checkpoint
from informer.checkpoint import restore_model
from informer.checkpoint.informer2020 import DEFAULTS, from_informer2020, our_name
from informer.networks.models.informer import Informer

PARITY = Path(__file__).parent / "parity"
CASES = ["informer_full_timef", "informer_stack_fixed"]
INPUTS = ("x_enc", "x_mark_enc", "x_dec", "x_mark_dec")
SMALL = {"enc_in": 3, "dec_in": 3, "c_out": 2, "seq_len": 12, "label_len": 5, "out_len": 4, "d_model": 8, "n_heads": 2}


def loaded(case: str) -> tuple[Informer, dict[str, torch.Tensor]]:
    stored = np.load(PARITY / f"{case}.npz")
    arrays = {name: torch.as_tensor(stored[name]) for name in stored.files if name != "config"}
    state = {name.removeprefix("state/"): value for name, value in arrays.items() if name.startswith("state/")}
    return from_informer2020(state, json.loads(str(stored["config"]))), arrays


def named_gradients(model: Informer, names: list[str]) -> dict[str, torch.Tensor]:
    """Gradients of our parameters under their names, in their shapes (their feed-forward weights end in a 1)."""
    parameters = dict(model.named_parameters())
    gradients = {}
    for name in names:
        gradient = parameters[our_name(name)].grad
        assert gradient is not None, name
        gradients[name] = gradient[..., None] if re.search(r"\.conv[12]\.weight$", name) else gradient
    return gradients


@pytest.mark.parametrize("case", CASES)
def test_outputs_loss_and_every_gradient_agree(case: str) -> None:
    """Red if a weight lands in the wrong place, running statistics are not taken over, or batch statistics, head
    merging or any path of the backward pass differ."""
    model, arrays = loaded(case)
    output = model.eval()(*(arrays[name] for name in INPUTS))
    torch.testing.assert_close(output, arrays["eval_output"], rtol=0, atol=1e-10)
    output = model.train()(*(arrays[name] for name in INPUTS))
    torch.testing.assert_close(output, arrays["train_output"], rtol=0, atol=1e-10)
    loss = (output - arrays["target"]).square().mean()
    torch.testing.assert_close(loss, arrays["train_loss"], rtol=0, atol=1e-10)
    loss.backward()
    names = [name.removeprefix("grad/") for name in arrays if name.startswith("grad/")]
    assert len(names) == len(dict(model.named_parameters()))
    for name, gradient in named_gradients(model, names).items():
        torch.testing.assert_close(gradient, arrays[f"grad/{name}"], rtol=0, atol=1e-10, msg=name)


def informer2020_state(config: dict) -> dict[str, torch.Tensor]:
    """Names and shapes that their constructors give, random values: written from their modules' definitions."""
    settings = DEFAULTS | config
    d_model, d_ff = settings["d_model"], settings["d_ff"] or 4 * settings["d_model"]
    inner = settings["n_heads"] * (d_model // settings["n_heads"])
    generator = torch.Generator().manual_seed(0)
    state: dict[str, torch.Tensor] = {}

    def add(name: str, *shape: int) -> None:
        state[name] = torch.randn(*shape, generator=generator, dtype=torch.float64)

    def linear(name: str, n_in: int, n_out: int, *kernel: int) -> None:
        add(f"{name}.weight", n_out, n_in, *kernel)
        add(f"{name}.bias", n_out)

    def norm(name: str) -> None:
        add(f"{name}.weight", d_model)
        add(f"{name}.bias", d_model)

    def attention(name: str) -> None:
        for part in ("query", "key", "value"):
            linear(f"{name}.{part}_projection", d_model, inner)
        linear(f"{name}.out_projection", inner, d_model)

    def feed_forward(name: str) -> None:
        linear(f"{name}.conv1", d_model, d_ff, 1)
        linear(f"{name}.conv2", d_ff, d_model, 1)

    for side in ("enc", "dec"):
        linear(f"{side}_embedding.value_embedding.tokenConv", settings[f"{side}_in"], d_model, 3)
        add(f"{side}_embedding.position_embedding.pe", 1, 5000, d_model)
        calendar = f"{side}_embedding.temporal_embedding"
        if settings["embed"] == "timeF":
            n_features = {"h": 4, "t": 5, "s": 6, "m": 1, "a": 1, "w": 2, "d": 3, "b": 3}[settings["freq"]]
            linear(f"{calendar}.embed", n_features, d_model)
        else:
            tables = {"hour": 24, "weekday": 7, "day": 32, "month": 13}
            tables |= {"minute": 4} if settings["freq"] == "t" else {}
            for field, size in tables.items():
                inside = "emb.weight" if settings["embed"] == "fixed" else "weight"
                add(f"{calendar}.{field}_embed.{inside}", size, d_model)

    is_stack = config.get("class") == "InformerStack"
    e_layers = settings["e_layers"] if is_stack else [settings["e_layers"]]
    for i, n_layers in enumerate(e_layers):
        encoder = f"encoder.encoders.{i}" if is_stack else "encoder"
        for j in range(n_layers):
            layer = f"{encoder}.attn_layers.{j}"
            attention(f"{layer}.attention")
            feed_forward(layer)
            norm(f"{layer}.norm1")
            norm(f"{layer}.norm2")
        for j in range(n_layers - 1 if settings["distil"] else 0):
            conv = f"{encoder}.conv_layers.{j}"
            linear(f"{conv}.downConv", d_model, d_model, 3)
            norm(f"{conv}.norm")
            add(f"{conv}.norm.running_mean", d_model)
            state[f"{conv}.norm.running_var"] = torch.rand(d_model, generator=generator, dtype=torch.float64) + 0.5
            state[f"{conv}.norm.num_batches_tracked"] = torch.tensor(3)
        norm(f"{encoder}.norm")
    for j in range(settings["d_layers"]):
        layer = f"decoder.layers.{j}"
        attention(f"{layer}.self_attention")
        attention(f"{layer}.cross_attention")
        feed_forward(layer)
        for k in (1, 2, 3):
            norm(f"{layer}.norm{k}")
    norm("decoder.norm")
    linear("projection", d_model, settings["c_out"])
    return state


@pytest.mark.parametrize(
    "extra",
    [
        {"attn": "prob", "embed": "learned", "freq": "t", "e_layers": 2, "activation": "relu"},
        {"attn": "full", "embed": "learned", "freq": "d", "e_layers": 3, "d_layers": 3, "mix": False},
        {"attn": "full", "embed": "fixed", "freq": "b", "distil": False, "e_layers": 2, "d_ff": None},
        {"attn": "prob", "embed": "timeF", "freq": "w", "class": "InformerStack", "e_layers": [2, 1]},
        {"attn": "full", "embed": "timeF", "freq": "m", "d_model": 10, "n_heads": 4, "e_layers": 2},
    ],
    ids=str,
)
def test_every_argument_combination_loads_whole(extra: dict) -> None:
    """Red if a name is not mapped, a shape differs, or a parameter of ours gets no value of theirs."""
    config = SMALL | extra
    state = informer2020_state(config)
    model = from_informer2020(state, config).eval()
    ours = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, value in state.items():
        mine = ours[our_name(name)]
        expected = value.squeeze(-1) if ".conv" in name and value.ndim == 3 and value.shape[-1] == 1 else value
        expected = expected[0, : len(mine)] if name.endswith(".pe") else expected
        torch.testing.assert_close(mine.detach(), expected, rtol=0, atol=0, msg=name)
    mapped = {our_name(name) for name in state}
    assert {name for name, _ in model.named_parameters()} <= mapped


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
