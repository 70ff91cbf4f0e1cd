"""Step by step decoding against a plain loop that feeds each forecast back, for the network and for every command."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch
from entry_points import ROOT, SMALL, Trained, done, refusal
from torch import Tensor

from informer import Forecaster
from informer.checkpoint import build_model
from informer.members.network import ForecastModel
from informer.networks import InformerConfig, ModelDims

FULL = {"_target_": "informer.networks.attention.full.FullAttention"}
PROB = {"_target_": "informer.networks.attention.prob.ProbAttention", "factor": 1}
DIMS = ModelDims(
    enc_in=4, c_out=2, mark_sizes=(1, 1), seq_len=12, label_len=6, pred_len=6, targets=(2, 0), known=(1,)
)  # fmt: skip
TOKEN, AHEAD = DIMS.label_len, DIMS.pred_len


def network(attn: dict = FULL, quantiles: tuple[float, ...] = (), **config: object) -> ForecastModel:
    torch.manual_seed(0)
    small = {"d_model": 6, "n_heads": 3, "d_ff": 10, "decoder_layers": 2, "decoding": "step"} | config
    slots = {"attn": attn, "decoder_attn": attn, "cross_attn": FULL}
    net = build_model(InformerConfig(**small), DIMS, **slots, quantiles=quantiles).double().eval()
    for parameter in net.network.head.parameters():  # zero with a linear skip
        torch.nn.init.normal_(parameter)
    return net


def windows(batch: int = 3) -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    shapes = [(12, 4), (12, 2), (TOKEN + AHEAD, 4), (TOKEN + AHEAD, 2)]
    enc_x, enc_mark, dec_x, dec_mark = (
        torch.rand(batch, *shape, generator=draw, dtype=torch.float64) for shape in shapes
    )
    dec_x[:, :TOKEN] = enc_x[:, -TOKEN:]
    dec_x[:, TOKEN:, [0, 2, 3]] = 0.0  # column 1 is known ahead
    return [enc_x, enc_mark, dec_x, dec_mark]


def fed_back(net: ForecastModel, inputs: list[Tensor], step: int = 1) -> Tensor:
    """The definition: one pass for each row, whose forecast of the targets then is in the decoder's input."""
    rows_of_step, net.step_rows = net.step_rows, 0
    enc_x, enc_mark, dec_x, dec_mark = (x.clone() for x in inputs)
    rows = []
    for i in range(0, AHEAD, step):
        output = net(enc_x, enc_mark, dec_x, dec_mark)
        for row in range(i, i + step):
            rows.append(output[:, row])
            median = output[:, row, :, 1] if output.ndim == 4 else output[:, row]
            dec_x[:, TOKEN + row, 2], dec_x[:, TOKEN + row, 0] = median[:, 0], median[:, 1]
    net.step_rows = rows_of_step
    return torch.stack(rows, dim=1)


@pytest.mark.parametrize(
    ("attn", "config"),
    [
        (PROB, {}),
        (FULL, {"patch_len": 3}),
        (FULL, {"channel_independent": True}),
        (PROB, {"mix": True}),
        (FULL, {"skip": "ridge"}),
    ],
)
@torch.no_grad()
def test_it_equals_the_loop(attn: dict, config: dict) -> None:
    """Red if a row is taken from another pass, or a forecast is written to another row or column."""
    net, inputs = network(attn, **config), windows()
    assert net.step_rows == config.get("patch_len", 1)
    torch.testing.assert_close(net(*inputs), fed_back(net, inputs, config.get("patch_len", 1)), rtol=0, atol=1e-12)


@torch.no_grad()
def test_the_median_of_quantiles_is_fed_back() -> None:
    net, inputs = network(quantiles=(0.1, 0.5, 0.9)), windows()
    torch.testing.assert_close(net(*inputs), fed_back(net, inputs), rtol=0, atol=1e-12)


STEP = ["model.decoding=step", "model.offset=3"]


ROLES = ["targets=[price,demand]", "future_covariates=[temperature]", "loss=quantile"]


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of quantiles and future covariates that steps, with an offset."""
    run = tmp_path_factory.mktemp("stepped") / "run"
    done("train", "dataset=sample", *SMALL, *STEP, *ROLES, "trainer.max_epochs=1", f"run_dir={run}")
    return run


def test_an_offset_moves_the_forecast(stepped: Path, folder: Path) -> None:
    """Red if the rows of the offset are forecast, or future covariates are read there."""
    table = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"])
    model = Forecaster.load(stepped, device="cpu")
    history, ahead = table.iloc[:280], table[["date", "temperature"]].iloc[283:289]
    forecast = model.predict(history, future=ahead)
    assert list(forecast["date"]) == list(table["date"].iloc[283:289])
    with pytest.raises(ValueError, match="expected future covariates for 6 times"):
        model.predict(history, future=table[["date", "temperature"]].iloc[280:286])
    with pytest.raises(ValueError, match=r'horizon=7: expected at most pred_len=6 with model=\{"offset": 3\}'):
        model.predict(history, future=table[["date", "temperature"]].iloc[280:300], horizon=7)
    rolled = model.backtest(table.iloc[280 - 24 : 289], stride=1)
    first = rolled[(rolled["origin"] == table["date"].iloc[279]) & (rolled["column"] == "price")]
    assert list(first["date"]) == list(table["date"].iloc[283:289])
    assert first["forecast"].to_numpy() == pytest.approx(forecast["price"].to_numpy(), rel=1e-4)
    assert first["actual"].to_numpy() == pytest.approx(table["price"].iloc[283:289].to_numpy())
    done("predict", f"checkpoint={stepped}", f"input={ROOT / 'data/sample.csv'}", "mode=rolling")


def test_another_decoding_and_an_offset_are_scored_on_the_same_weights(trained: Trained, folder: Path) -> None:
    """Red if a setting has no effect, or intervals stay that are calibrated on other forecasts. There are as many
    windows as without an offset: their targets are the test rows, and their histories end 4 rows earlier."""
    whole = json.loads((trained.run_dir / "metrics.json").read_text())
    assert whole["intervals"]
    for word in ("decoding=step", "offset=4"):
        done("eval", f"checkpoint={trained.run_dir}", f"output={word}", f"model.{word}", "plots=none")
        own = json.loads(Path(word, "metrics.json").read_text())
        assert own["scores"]["informer"] != whole["scores"]["informer"]
        assert own["windows"] == whole["windows"]
        assert not own["intervals"]
    assert "model.offset" in refusal("eval", f"checkpoint={trained.run_dir}", "model.offset=-1")
