"""A file that loads has the content that was written, belongs to its run, and runs no code whatever it contains."""

import json
import math
import os
import pickle
import random
import shutil
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import torch
from entry_points import ROOT, SMALL, Trained, call, done, refused
from forgery import content_of, write_forged

from informer import Forecaster, InputError

N_FLIPS = 50


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model file."""
    place = tmp_path_factory.mktemp("whole")
    tiny = ["model=tiny", "model.d_model=4", "model.n_heads=1", "model.d_ff=4", "model.encoder_stacks=[1]"]
    lengths = ["seq_len=24", "label_len=6", "pred_len=6", "features=S", "target=demand", "trainer.max_steps=1"]
    done("train", "dataset=sample", *tiny, *lengths, f"run_dir={place / 'run'}")
    return place / "run" / "best.safetensors"


def refusal_of(path: Path) -> str:
    """The one line with which a file is refused."""
    with pytest.raises(InputError) as caught:
        Forecaster.load(path)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.slow
def test_no_flipped_bit_is_overlooked(small: Path, tmp_path: Path) -> None:
    """Red if a bit can be turned, of the header or of a tensor, and the file loads."""
    whole, draw = small.read_bytes(), random.Random(0)
    places = [draw.randrange(len(whole)) for _ in range(N_FLIPS)] + [draw.randrange(8000) for _ in range(N_FLIPS)]
    for place in places:
        content = bytearray(whole)
        content[place] ^= 1 << draw.randrange(8)
        (tmp_path / "damaged.safetensors").write_bytes(content)
        refusal_of(tmp_path / "damaged.safetensors")


class Bomb:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch exploded",)


def test_a_pickle_is_not_read(folder: Path) -> None:
    """Red if anything is unpickled, whatever the name of the file."""
    for name in ("bomb.pt", "bomb.safetensors"):
        torch.save({"config": Bomb()}, name)
        assert "cannot be read as a model file" in refusal_of(Path(name))
        Path(name).write_bytes(pickle.dumps(Bomb()))
        assert "cannot be read as a model file" in refusal_of(Path(name))
    assert not Path("exploded").exists()


def header(text: str, data: bytes = b"") -> bytes:
    """A file of tensors with this header."""
    return len(text).to_bytes(8, "little") + text.encode() + data


CLAIMS = [
    b"\xff" * 100,
    (1 << 62).to_bytes(8, "little") + b"{}",
    header("{}"),
    header('{"__metadata__":{"informer":"{}"}}'),
    header('{"__metadata__":{"informer":3}}'),
    header('{"__metadata__":' + '{"informer":' * 5000 + "1" + "}" * 5001),
    header(json.dumps({"__metadata__": {"informer": "[" * 100_000}})),
    header('{"weights.a":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,4000000000000]}}', b"\0" * 8),
    header('{"weights.a":{"dtype":"F32","shape":[9223372036854775807,8],"data_offsets":[0,8]}}', b"\0" * 8),
]


def test_headers_that_claim_too_much(folder: Path) -> None:
    """Red if sizes are believed, nested containers unfold, or an error of a library gets through."""
    for content in CLAIMS:
        Path("forged.safetensors").write_bytes(content)
        line = refusal_of(Path("forged.safetensors"))
        assert "cannot be read as a model file" in line or "has another format" in line


@pytest.mark.parametrize(
    ("entries", "part"),
    [
        ({"format": 99}, "another format than 6"),
        ({"inputs": []}, "column 'demand' is used but not read"),
        ({"targets": ["c"]}, "column 'c' is used but not read"),
        ({"frequency": "never"}, "frequency 'never'"),
        ({"weights": {"a": 1.0}}, ": weights: expected tensors, which are not in the header, found"),
        ({"surplus": 3}, ": surplus: Extra inputs are not permitted, found 3"),
        ({"data.until": "tomorrow or so"}, ": data.until: "),
        ({"data.non_negative": ["c"]}, "column 'c' cannot be negative, but is not forecast"),
        ({"masked": [0, 0]}, "gaps: expected different ones"),
        ({"masked": [1]}, "positions of columns with gaps: expected some below 1, found [1]"),
        ({"masked": [0]}, "weights do not fit"),
        ({"targets": ["demand", "demand"]}, "columns forecast: expected different ones"),
        ({"data.names": ["a", "b"], "config.model.series_embedding": 10**4}, "weights do not fit"),
        ({"config.seq_len": 10**9}, "at most 10000000"),
        ({"config.seq_len": 2**21}, "at most 1048576"),
        ({"config.seq_len": "many"}, "seq_len: expected a whole number"),
        ({"config.dataset.calendar": ["hour", "no such"]}, "dataset.calendar: expected some of"),
        ({"config.dataset.calendar": ["hour"]}, "weights do not fit"),
        ({"config.model.d_model": 10**6}, "enc_embedding.value.weight: expected (1000000, 1, 3)"),
        ({"config.model.d_ff": 10**12}, "weights do not fit"),
        ({"config.model.encoder_stacks": [10**9]}, "layers, but only"),
        ({"config.model.embed": "no such"}, "model.embed: expected one of timeF"),
        ({"config.model.surplus": 1}, "unknown key 'model.surplus'"),
        ({"config.model.n_heads": 3}, "expected a multiple of model.n_heads=3"),
        ({"config.attn.surplus": 5}, "no parameter 'surplus'"),
        ({"config.attn._target_": "informer.networks.attention.base.AttentionSpec"}, "is not an Attention"),
        ({"config.attn._target_": "os.system"}, "'os.system' is not an Attention"),
        ({"config.attn._target_": "antigravity.fly"}, "expected a class below informer.networks.attention, found"),
        ({"config.dataset.exclude": reduce(lambda nested, _: [nested], range(500), 1)}, "recursion limit"),
        ({"config.dataset": {"${oc.env:SECRET}": 1}}, "unknown key 'dataset.${oc.env:SECRET}'"),
    ],
)
def test_forged_entries(
    entries: dict[str, Any], part: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if an entry is used before its kind is checked, or a size before it is compared with the weights."""
    monkeypatch.setenv("SECRET", "xyzzy")
    content = content_of(small)
    for place, value in entries.items():
        *above, key = place.split(".")
        node = content
        for name in above:
            node = node[name]
        node[key] = value
    write_forged(tmp_path / "forged.safetensors", content)
    line = refusal_of(tmp_path / "forged.safetensors")
    assert part in line
    assert "xyzzy" not in line


@pytest.mark.slow
def test_tables_that_no_weight_pays_for(tmp_path: Path) -> None:
    """Red if buffers that are computed at start are not counted: 512 numbers a row, but a million rows."""
    wide = [*SMALL, "model.d_model=512", "trainer.max_steps=1", "trainer.batch_size=2"]
    done("train", "dataset=sample", *wide, f"run_dir={tmp_path / 'run'}")
    content = content_of(tmp_path / "run" / "best.safetensors")
    content["config"]["seq_len"] = 2**20
    write_forged(tmp_path / "forged.safetensors", content)
    assert "MiB of tables in addition to its weights" in refusal_of(tmp_path / "forged.safetensors")


def test_weights_of_another_kind_are_refused(small: Path, tmp_path: Path) -> None:
    """Red if numbers are cast in silence, or a network that can only give NaN is used; half precision is taken."""
    content, forged = content_of(small), tmp_path / "forged.safetensors"
    weights = content["weights"]
    name = next(name for name, x in weights.items() if x.is_floating_point() and x.ndim)
    for change, part in (
        (lambda x: (x * 100).to(torch.int8), "expected torch.float32, found torch.int8"),
        (lambda x: x > 0, "expected torch.float32, found torch.bool"),
        (lambda x: x * math.nan, "not finite"),
        (lambda x: x.index_fill(0, torch.tensor(0), math.inf), "not finite"),
        (lambda x: x[:-1], "weights do not fit the network"),
    ):
        write_forged(forged, content | {"weights": weights | {name: change(weights[name])}})
        assert part in refusal_of(forged)
    halves = {name: x.half() if x.is_floating_point() else x for name, x in weights.items()}
    write_forged(forged, content | {"weights": halves})
    Forecaster.load(forged)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run like the one of `trained`, with another seed."""
    run_dir = tmp_path_factory.mktemp("other") / "run"
    done("train", "dataset=sample", *SMALL, "trainer.max_epochs=1", "seed=1", f"run_dir={run_dir}")
    return run_dir


@pytest.fixture
def run(trained: Trained, folder: Path) -> Path:
    """A copy of a finished run."""
    return Path(shutil.copytree(trained.run_dir, folder / "run"))


def test_files_of_another_run_in_a_run_directory(run: Path, other: Path) -> None:
    """Red if best.safetensors is not compared with run.json (by itself it is good), or the state of one run is
    continued with the configuration, or the weights, of another."""
    own = {name: (run / name).read_bytes() for name in ("config.yaml", "last.safetensors", "best.safetensors")}
    shutil.copy(other / "best.safetensors", run)
    refused(call("eval", "checkpoint=run"), "best.safetensors is not the one that", "run.json describes")
    done("eval", "checkpoint=run/best.safetensors", "plots=none", "output=own")
    (run / "metrics.json").unlink()
    for name in own:
        (run / "best.safetensors").write_bytes(own["best.safetensors"])
        shutil.copy(other / name, run)
        before = {path: path.read_bytes() for path in run.glob("*.safetensors")}
        refused(call("train", "resume=run"), "of another configuration than config.yaml", "seed")
        assert {path: path.read_bytes() for path in run.glob("*.safetensors")} == before
        (run / name).write_bytes(own[name])
    whole, theirs = content_of(run / "last.safetensors"), content_of(other / "last.safetensors")
    moments = {name: x[..., :-1] for name, x in theirs["state"].items() if name.endswith("exp_avg") and x.ndim}
    write_forged(run / "last.safetensors", whole | {"state": whole["state"] | moments})
    refused(call("train", "resume=run"), "checkpoint: state.optimizer.", "expected moments of the network")


@pytest.mark.slow
def test_a_run_that_goes_on_can_be_scored(folder: Path) -> None:
    """Red if the digests of a finished run stay when it is made to continue."""
    done("train", "dataset=sample", *SMALL, "trainer.max_epochs=1", "run_dir=run")
    Path("run/metrics.json").unlink()
    Path("run/best.safetensors").unlink()
    shutil.copy("run/last.safetensors", "run/best.safetensors")
    done("train", "resume=run")
    done("eval", "checkpoint=run", "plots=none")


def test_another_step_than_that_of_the_data(run: Path) -> None:
    """Red if a step is not compared with that of the data, or one beyond what numbers hold is a traceback."""
    content = content_of(run / "best.safetensors")
    for frequency in ("-1h", "2h", "99999999999999999999h"):
        write_forged(Path("forged.safetensors"), content | {"frequency": frequency})
        refused(call("eval", "checkpoint=forged.safetensors", "output=out", "plots=none"))
    refused(call("predict", "checkpoint=forged.safetensors", f"input={ROOT}/data/sample.csv", "output=out"))
