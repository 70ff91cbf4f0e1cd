"""Files of a run replaced by something else; changed entries are tested by scripts/fuzz.py."""

import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest
import torch
from entry_points import call, script

from informer.base.errors import InputError
from informer.checkpoint.restore import differing_shape
from informer.training.folder import RunFolder


@pytest.fixture(scope="module")
def scripts() -> ModuleType:
    return script("fuzz_files")


@pytest.fixture
def run(scripts: ModuleType, folder: Path) -> Path:
    """A run that is not finished, here."""
    shutil.copytree(scripts.finished_run(), "run")
    Path("run/metrics.json").unlink()
    return Path("run")


def check_line(scripts: ModuleType, error: InputError, case: object) -> None:
    assert scripts.problem_of(error, str(case)) is None


@pytest.mark.parametrize("name", ["config.yaml", "run.json", "last.safetensors"])
def test_a_file_of_a_run_that_is_something_else(name: str, run: Path, scripts: ModuleType) -> None:
    """Red if the program waits for a pipe, unfolds a bomb or fails with a traceback, whichever file is spoilt."""
    whole = (run / name).read_bytes()
    refused = 0
    for kind in scripts.KINDS:
        scripts.spoil(run / name, kind)
        try:
            scripts.begin_to_resume(run)
        except InputError as error:
            check_line(scripts, error, (name, kind[:20]))
            refused += 1
        if (run / name).is_dir():
            (run / name).rmdir()
        (run / name).unlink(missing_ok=True)
        (run / name).write_bytes(whole)
    assert refused > len(scripts.KINDS) // 2
    scripts.begin_to_resume(run)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["best.safetensors", "events.out.tfevents.run", "train.log"])
@pytest.mark.parametrize("kind", ["", "a folder", "a pipe", "a link to nothing"])
def test_a_file_that_training_writes_is_something_else(name: str, kind: str, run: Path, scripts: ModuleType) -> None:
    scripts.spoil(run / name, kind)
    outcome = call("train", f"resume={run}")
    assert outcome.status in (0, 2), outcome
    assert outcome.err.count("\n") == (outcome.status == 2), outcome.err


@pytest.mark.parametrize("kind", ["", "a folder", "a pipe", "a link to nothing", "nothing", "[]", b"\xff\xfe\x00"])
def test_a_run_forecasts_without_its_best_checkpoint_or_not(kind: str | bytes, run: Path, scripts: ModuleType) -> None:
    """Red if `checkpoint=RUN` waits for a pipe or fails with a traceback."""
    scripts.spoil(run / "best.safetensors", kind)
    with pytest.raises(InputError) as caught:
        scripts.use(run)
    check_line(scripts, caught.value, kind)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("model", "offset"), "1"),
        (("model", "offset"), 10**30),
        (("trainer", "freeze"), [[]]),
        (("dataset", "confirm"), [[]]),
        (("model", "encoder_stacks"), [[[]]]),
        (("model", "stack_fractions"), [{"a": 1}]),
        (("loss", "quantiles"), [[]]),
    ],
)
def test_entries_that_are_used_before_the_configuration_is_built(
    keys: tuple[str, ...], value: object, scripts: ModuleType, tmp_path: Path
) -> None:
    """Red if one of them ends in another error than the one line; a list that nothing reads may be used."""
    content = scripts.mutated(scripts.entries("best.safetensors"), ("config", *keys), value)
    scripts.write_model(tmp_path / "changed.safetensors", content)
    if keys == ("trainer", "freeze"):
        scripts.use(tmp_path / "changed.safetensors")
        return
    with pytest.raises(InputError) as caught:
        scripts.use(tmp_path / "changed.safetensors")
    check_line(scripts, caught.value, keys)
    assert keys[-1] in str(caught.value)


@pytest.mark.parametrize(
    "facts", [{"resumed": 3}, {"resumed": [1]}, {"data": []}, {"digests": {"best.safetensors": 1}}]
)
def test_entries_of_run_json_are_of_their_kinds(facts: dict[str, object], run: Path) -> None:
    (run / "run.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match=r"run\.json: .*: found .*, which no run writes"):
        RunFolder(run).facts()


@pytest.mark.parametrize("weight", ["", {}, None])
def test_averaged_weights_are_arrays(weight: object) -> None:
    """Fails if the shape of something that is not an array is used."""
    weights = {"one": torch.ones(2), "two": torch.ones(3)}
    assert differing_shape(weights, weights) is None
    name, own, shape = differing_shape(weights, weights | {"two": weight})
    assert (name, own, shape) == ("two", "(3,)", type(weight).__name__)
