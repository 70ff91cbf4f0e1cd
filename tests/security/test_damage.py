"""Damage is detected: a file that loads has the content that was written, and belongs to its run."""

import json
import math
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from entry_points import ROOT, SMALL, Trained, call, done, refused, script
from forgery import content_of, write_forged

from informer import Forecaster, checkpoint
from informer.base.errors import InputError
from informer.checkpoint.format import Checkpoint, content_digest, to_safetensors

N_FLIPS = 150


def same_checkpoint(one: Checkpoint, other: Checkpoint) -> bool:
    return script("fuzz_files").is_same(one, other)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small checkpoint as both kinds of files."""
    place = tmp_path_factory.mktemp("whole")
    small = ["model=tiny", "model.d_model=4", "model.n_heads=1", "model.d_ff=4", "model.encoder_stacks=[1]"]
    lengths = ["seq_len=24", "label_len=6", "pred_len=6", "features=S", "target=demand", "trainer.max_steps=1"]
    done("train", "dataset=sample", *small, *lengths, f"run_dir={place / 'run'}")
    saved = checkpoint.load(place / "run")
    (place / "whole.safetensors").write_bytes(to_safetensors(saved))
    checkpoint.save(place / "whole.pt", replace(saved, training=None))
    return {path.suffix: path for path in place.glob("whole.*")}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_no_flipped_bit_is_overlooked(suffix: str, files: dict[str, Path], tmp_path: Path) -> None:
    """Red if a bit can be turned and the file loads with other content: today a third of all flips."""
    whole, draw = files[suffix].read_bytes(), random.Random(0)
    written = checkpoint.load(files[suffix])
    damaged = tmp_path / f"damaged{suffix}"
    refusals: list[str] = []
    for _ in range(N_FLIPS):
        content = bytearray(whole)
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        damaged.write_bytes(content)
        try:
            assert same_checkpoint(checkpoint.load(damaged), written)
        except InputError as error:
            refusals.append(str(error))
    assert not any("\n" in line for line in refusals)
    assert len(refusals) > N_FLIPS // 3


def test_both_files_hold_the_same(files: dict[str, Path]) -> None:
    """Red if a file loses a part, or its digest depends on the kind of file."""
    one, other = (checkpoint.load(path) for path in files.values())
    assert same_checkpoint(one, other)
    assert one.digest == other.digest


def test_a_tensor_that_asks_for_gradients(files: dict[str, Path], tmp_path: Path) -> None:
    """Red if the flag of a tensor, a bit of the file, is not part of the digest: arrays cannot be made of it."""
    content = torch.load(files[".pt"], weights_only=True)
    name = next(name for name, x in content["weights"].items() if x.is_floating_point())
    content["weights"][name].requires_grad_()
    torch.save(content, tmp_path / "changed.pt")
    with pytest.raises(InputError, match="is damaged"):
        checkpoint.load(tmp_path / "changed.pt")


def test_the_stride_of_a_single_number_is_no_content() -> None:
    """Red if a bit of a .pt file, the stride of an array of one number, ends in a traceback."""
    odd = torch.full((40,), 2.5).as_strided((1,), (33,))
    assert content_digest({"x": odd}) == content_digest({"x": torch.tensor([2.5])})
    assert content_digest({"x": odd}) != content_digest({"x": torch.tensor([2.0])})


def test_a_digest_cannot_be_left_out(files: dict[str, Path], tmp_path: Path) -> None:
    """Red if a file is read without a digest, or another format with one."""
    content = content_of(files[".pt"])
    for changed in (content, content | {"digest": None}, content | {"digest": 3}):
        torch.save(changed, tmp_path / "changed.pt")
        with pytest.raises(InputError, match="is damaged: its content is not what was written"):
            checkpoint.load(tmp_path / "changed.pt")
    torch.save(content | {"format": 2, "digest": "0" * 64}, tmp_path / "changed.pt")
    with pytest.raises(InputError, match=f"another format than {checkpoint.format.FORMAT}"):
        checkpoint.load(tmp_path / "changed.pt")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda x: (x * 100).to(torch.int8), "expected torch.float32, found torch.int8"),
        (lambda x: x.to(torch.complex64), "expected torch.float32, found torch.complex64"),
        (lambda x: x > 0, "expected torch.float32, found torch.bool"),
        (lambda x: x * math.nan, "not finite"),
        (lambda x: x.index_fill(0, torch.tensor(0), math.inf), "not finite"),
    ],
)
def test_weights_of_another_kind_are_refused(
    change: Callable[[torch.Tensor], torch.Tensor], part: str, files: dict[str, Path], tmp_path: Path
) -> None:
    """Red if numbers are cast in silence, or a network that can only give NaN is used."""
    content = content_of(files[".pt"])
    name = next(name for name, x in content["weights"].items() if x.is_floating_point() and x.ndim)
    content["weights"][name] = change(content["weights"][name])
    write_forged(tmp_path / "forged.pt", content)
    with pytest.raises(InputError, match=part):
        Forecaster.load(tmp_path / "forged.pt")


def test_weights_of_half_precision_are_taken(files: dict[str, Path], tmp_path: Path) -> None:
    content = content_of(files[".pt"])
    content["weights"] = {name: x.half() if x.is_floating_point() else x for name, x in content["weights"].items()}
    write_forged(tmp_path / "half.pt", content)
    Forecaster.load(tmp_path / "half.pt")


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


def test_the_digests_are_noted_in_the_run(run: Path) -> None:
    noted = json.loads((run / "run.json").read_text())["digests"]
    expected = {name: checkpoint.load(run / name).digest for name in ("best.pt", "last.pt")}
    assert noted == expected


def test_a_checkpoint_of_another_run_in_a_run_directory(run: Path, other: Path) -> None:
    """Red if best.pt is not compared with run.json; the file by itself is good."""
    shutil.copy(other / "best.pt", run / "best.pt")
    refused(call("eval", "checkpoint=run"), "best.pt is not the one that", "run.json describes")
    done("eval", "checkpoint=run/best.pt", "plots=none")


@pytest.mark.parametrize("name", ["config.yaml", "last.pt", "best.pt"])
def test_a_run_goes_on_with_its_own_files_only(name: str, run: Path, other: Path) -> None:
    """Red if the state of one run is continued with the configuration of another."""
    (run / "metrics.json").unlink()
    shutil.copy(other / name, run / name)
    before = {path: path.read_bytes() for path in run.glob("*.pt")}
    refused(call("train", "resume=run"), "of another configuration than config.yaml", "seed")
    assert {path: path.read_bytes() for path in run.glob("*.pt")} == before


def test_the_optimizer_of_another_run(run: Path, other: Path) -> None:
    """Red if parts of two files make a third one that loads."""
    (run / "metrics.json").unlink()
    whole = torch.load(run / "last.pt", weights_only=True)
    theirs = torch.load(other / "last.pt", weights_only=True)
    torch.save(whole | {"training": theirs["training"]}, run / "last.pt")
    refused(call("train", "resume=run"), "last.pt is damaged: its content is not what was written")


def test_a_run_that_goes_on_can_be_scored(folder: Path) -> None:
    """Red if the digests of a finished run stay when it is made to continue."""
    done("train", "dataset=sample", *SMALL, "trainer.max_epochs=1", "run_dir=run")
    Path("run/metrics.json").unlink()
    Path("run/best.pt").unlink()
    shutil.copy("run/last.pt", "run/best.pt")
    done("train", "resume=run")
    done("eval", "checkpoint=run", "plots=none")


@pytest.mark.parametrize("frequency", ["999999999D", "99999999999999999999h", "999999999YE", "-1h", "2h"])
@pytest.mark.parametrize("entry", ["predict", "eval"])
def test_another_step_than_that_of_the_data(entry: str, frequency: str, run: Path) -> None:
    """Red if a step is not compared with that of the data, or one beyond what numbers hold is a traceback."""
    content = content_of(run / "best.pt")
    write_forged(Path("forged.pt"), content | {"frequency": frequency})
    sample = str(ROOT / "data" / "sample.csv")
    more = [f"input={sample}"] if entry == "predict" else ["plots=none"]
    refused(call(entry, "checkpoint=forged.pt", "output=out", *more))


def test_a_name_with_a_zero_byte_is_one_line(run: Path) -> None:
    sample = str(ROOT / "data" / "sample.csv")
    refused(call("predict", f"checkpoint={run}", f"input={sample}", "output=a\0b"))
    refused(call("eval", f"checkpoint={run}", "output=a\0b"))
    refused(call("export", f"checkpoint={run}", "output=a\0b"))
    refused(call("train", "dataset=sample", "run_dir=a\0b"))
