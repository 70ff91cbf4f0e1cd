"""Convert a checkpoint of Informer2020 (github.com/zhouhaoyi/Informer2020) to ours, for predict and eval.

    python scripts/import_informer2020.py checkpoint.pth runs/imported --csv ETTh1.csv -- \\
        --model informer --data ETTh1 --features M --seq_len 96 --label_len 48 --pred_len 24 --attn prob

After `--` come the arguments of main_informer.py, with its defaults. The training file is needed because their
checkpoint does not contain the scaler, which is fitted here on the same training rows.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from informer import checkpoint
from informer.base.console import refuse
from informer.base.errors import MOST_SIGNS, InputError, reason_of
from informer.base.files import check_no_input_overwritten
from informer.base.runtime import resource
from informer.checkpoint import informer2020 as compat
from informer.config.conversion import node_of, read_saved_yaml
from informer.config.data import Calendar, DatasetConfig, ScalerConfig
from informer.config.fields import check
from informer.config.model import WindowSizes
from informer.config.training import TrainConfig
from informer.data.columns import Roles
from informer.data.dataset import Data, lay_out, read_source
from informer.networks.models.base import ModelDims
from informer.training.facts import untrained
from informer.training.folder import RunFolder

COUNTED = (*(f"{side}_embedding.value_embedding.tokenConv.weight" for side in ("enc", "dec")), "projection.weight")
"""Their weights whose shapes say how many columns there are."""

ETT = ("ETTh1", "ETTh2", "ETTm1", "ETTm2")


def their_arguments() -> argparse.ArgumentParser:
    """The arguments of main_informer.py that determine the network or its data, with its defaults."""
    parser = argparse.ArgumentParser(prog="main_informer.py", add_help=False)
    for name, default in [("data", "ETTh1"), ("target", "OT"), ("freq", "h")]:
        parser.add_argument(f"--{name}", default=default)
    for name, default, alternatives in [
        ("model", "informer", ["informerstack"]), ("features", "M", ["S", "MS"]), ("attn", "prob", ["full"]),
        ("embed", "timeF", ["fixed", "learned"]), ("activation", "gelu", ["relu"]),
    ]:  # fmt: skip
        parser.add_argument(f"--{name}", default=default, choices=[default, *alternatives])
    parser.add_argument("--s_layers", type=_layers, default=[3, 2, 1])
    for name, size in [
        ("seq_len", 96), ("label_len", 48), ("pred_len", 24), ("d_model", 512), ("n_heads", 8), ("e_layers", 2),
        ("d_layers", 1), ("d_ff", 2048), ("factor", 5),
    ]:  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--dropout", type=float, default=0.05)
    # flags that switch off, as theirs do
    parser.add_argument("--distil", action="store_false")
    parser.add_argument("--mix", action="store_false")
    return parser


def _layers(text: str) -> list[int]:
    """Parse layers such as `3,2,1`."""
    return [int(n) for n in text.replace(" ", "").split(",")]


def read_state(pth: Path) -> dict[str, torch.Tensor]:
    """Read their state dict, a pickle, without executing code.

    Raises:
        InputError: the file contains something else.
    """
    try:
        state = torch.load(pth, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # a damaged or forged pickle can raise anything
        raise InputError(f"{pth}: expected weights saved by torch, found: {reason_of(error)}") from error
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise InputError(f"{pth}: expected weights by name, found {type(state).__name__}")
    state = {name.removeprefix("module."): value for name, value in state.items()}
    for name in COUNTED:
        if not isinstance(state.get(name), torch.Tensor) or state[name].ndim < 2:
            raise InputError(f"{pth}: expected a checkpoint.pth of the authors' Informer, found none of its {name}")
    for name, value in state.items():
        if not isinstance(value, torch.Tensor):
            raise InputError(f"{pth}: {name}: expected weights, found something else")
    return state


def constructor_arguments(options: argparse.Namespace, state: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Constructor arguments as in their experiment class; column counts are taken from the weights."""
    is_stack = options.model == "informerstack"
    taken = ["factor", "d_model", "n_heads", "d_layers", "d_ff", "dropout", "attn", "embed", "activation"]
    return {name: getattr(options, name) for name in [*taken, "distil", "mix"]} | {
        "class": "InformerStack" if is_stack else "Informer",
        "e_layers": options.s_layers if is_stack else options.e_layers,
        "freq": options.freq[-1:],
        "enc_in": state[COUNTED[0]].shape[1],
        "dec_in": state[COUNTED[1]].shape[1],
        "c_out": state[COUNTED[2]].shape[0],
        "seq_len": options.seq_len,
        "label_len": options.label_len,
        "out_len": options.pred_len,
    }  # fmt: skip


def dataset_config(options: argparse.Namespace, csv: Path) -> DatasetConfig:
    """Training file and split; except for ETT, their loader splits 0.7/0.1/0.2 and moves the target to the end."""
    dataset = read_saved_yaml(resource("conf/dataset") / f"{options.data if options.data in ETT else 'csv'}.yaml")
    config = node_of(DatasetConfig, dataset)
    config = replace(config, path=str(csv), target=options.target)
    if options.data not in ETT:
        columns = load(options, config).panel[0].columns
        config = replace(config, columns=[*(name for name in columns if name != options.target), options.target])
    return config


def load(options: argparse.Namespace, dataset: DatasetConfig) -> Data:
    """The training data, for the scaler of the checkpoint."""
    sizes = WindowSizes(seq_len=options.seq_len, label_len=options.label_len, pred_len=options.pred_len)
    roles = Roles(features=options.features, target=options.target)
    source = read_source(dataset, roles=roles, data_dir=Path())
    calendar = Calendar(options.embed)
    return lay_out(source, dataset, sizes=sizes, scaler=ScalerConfig(), calendar=calendar, device="cpu")


def convert(pth: Path, run_dir: Path, csv: Path, options: argparse.Namespace) -> Path:
    """Write the model file of `run_dir`; returns its path.

    Raises:
        InputError: their file, the arguments and the data do not match, or there is a run in `run_dir`.
    """
    check_no_input_overwritten([pth, csv], [run_dir / checkpoint.BEST], "run_dir")
    RunFolder(run_dir).check_new()
    state = read_state(pth)
    arguments = compat.complete(constructor_arguments(options, state))
    dataset = dataset_config(options, csv)
    config = check(
        TrainConfig(
            dataset=dataset, model=compat.model_config(arguments), seq_len=options.seq_len,
            label_len=options.label_len, pred_len=options.pred_len, features=options.features,
            target=options.target, run_dir=str(run_dir), non_negative="none",
            **compat.attention_nodes(arguments),
        )
    )  # fmt: skip
    model = compat.from_informer2020(state, arguments)
    data, dims = load(options, dataset), compat.dims(arguments)
    _check_columns(data, dims, csv)
    run_dir.mkdir(parents=True, exist_ok=True)
    weights = model.state_dict()
    saved = untrained(config, data)
    # until when they trained is not in their file
    facts = saved.data.model_copy(update={"trained_until": None, "mase_scales": {}})
    saved = saved.model_copy(update={"weights": weights, "data": facts})
    checkpoint.save(run_dir / checkpoint.BEST, saved)
    return run_dir / checkpoint.BEST


def _check_columns(data: Data, dims: ModelDims, csv: Path) -> None:
    available = (len(data.inputs), len(data.targets), data.train.store.marks.shape[1])
    needed = (dims.enc_in, dims.c_out, len(dims.mark_sizes))
    if available != needed:
        raise InputError(
            f"{csv}: gives {available[0]} inputs, {available[1]} targets and {available[2]} calendar marks at "
            f"{data.frequency.code}, the weights take {needed[0]}, {needed[1]} and {needed[2]}; "
            "check --features, --freq and the file"
        )


def main(argv: list[str]) -> None:
    """Convert, or print a one-line error."""
    place = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pth", type=Path, help="their checkpoint.pth")
    parser.add_argument("run_dir", type=Path, help="folder for the model file")
    parser.add_argument("--csv", type=Path, required=True, help="the file it was trained on")
    options = parser.parse_args(argv[:place])
    arguments, ignored = their_arguments().parse_known_args(argv[place + 1 :])
    if ignored:
        print(f"not used by the network, ignored: {' '.join(ignored)}")
    try:
        print(f"written: {convert(options.pth, options.run_dir, options.csv, arguments)}")
    except (InputError, OSError) as error:
        refuse(reason_of(error, max_length=MOST_SIGNS))
    except MemoryError:
        refuse(f"{options.pth}: out of memory")


if __name__ == "__main__":
    main(sys.argv[1:])
