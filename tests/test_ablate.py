"""scripts/ablate.py: every change is a configuration, and the table holds what its runs measured."""

import json
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import entry_points
import pytest
from entry_points import call_script

from informer.config.model import ModelConfig


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return entry_points.script("ablate")


def test_every_configuration_differs_from_the_base_in_one_thing(script: ModuleType, folder: Path) -> None:
    """Red if a key is misspelt, two changes are one, or their names collide."""
    jobs = script.jobs_of(list(script.AXES), script.BASE, [0], 7, folder)
    settings = {job.name: job.settings() for job in jobs}
    assert len(settings) == len(jobs) == len({str(each) for each in settings.values()})
    assert all(each.trainer.max_steps == 7 for each in settings.values())
    base = settings["base"]
    assert isinstance(base.model, ModelConfig)
    for name, each in settings.items():
        changed = {key for key in ("seq_len", "label_len", "pred_len") if getattr(each, key) != getattr(base, key)}
        changed |= {"attn"} if each.attn != base.attn else set()
        changed |= {"model"} if each.model != base.model else set()
        assert len(changed) == (0 if name == "base" else 2 if "336_" in name else 1), (name, changed)


@pytest.mark.slow
def test_a_stopped_comparison_goes_on(folder: Path) -> None:
    """Two configurations of seconds. Red if a finished seed is trained again, or a row is another configuration's."""
    keys = ["dataset=sample", "model=tiny", "seq_len=24", "label_len=12", "pred_len=6"]
    keys += ["--axes", "attention", "--steps", "2", "--output", "out"]
    done = call_script("ablate", *keys, "--seeds", "0")
    assert done.status == 0, done
    base = json.loads(Path("out/base_0.json").read_text())
    assert (base["configuration"], base["seed"]) == ("base", 0)
    assert 0 < base["ms_a_step"] < 60_000
    assert 0 <= base["peak_mib"] < 10_000
    before = Path("out/base_0.json").stat().st_mtime_ns
    again = call_script("ablate", *keys, "--seeds", "0", "1")
    assert again.status == 0, again
    assert Path("out/base_0.json").stat().st_mtime_ns == before
    mse = {path.stem: json.loads(path.read_text())["mse"] for path in Path("out").glob("*_?.json")}
    assert mse.keys() == {"base_0", "base_1", "attn=full_0", "attn=full_1"}
    assert len(set(mse.values())) == 4
    assert "| attention | **prob** | 2 |" in Path("out/ablations.md").read_text()
    refused = call_script("ablate", *keys, "--steps", "3")
    assert refused.status == 1
    assert "found those of another" in refused.err


def test_the_table_has_means_over_seeds(script: ModuleType, folder: Path) -> None:
    """Of 0.2, 0.4 and 0.6 the mean is 0.4 and the deviation 0.2; the base is in bold on every axis it is part of."""
    for configuration, mse in (("base", 0.2), ("base", 0.4), ("base", 0.6), ("attn=full", 0.1)):
        row = script.Row(configuration=configuration, seed=int(10 * mse), mse=mse, mae=1.0, ms_a_step=50, peak_mib=9)
        (folder / f"{configuration}_{row.seed}.json").write_text(json.dumps(asdict(row)))
    script.write_report(folder)
    lines = (folder / "ablations.md").read_text().splitlines()
    assert lines[2] == "| attention | **prob** | 3 | 0.400 ± 0.200 | 1.000 | 50 | 9 |"
    assert lines[3] == "|  | full | 1 | 0.100 | 1.000 | 50 | 9 |"
    assert [line.split(" | ")[0] for line in lines[4:]] == [
        "| distilling", "| stacks", "| decoder layers", "| decoding", "| label_len", "| factor", "| seq_len"
    ]  # fmt: skip


def test_an_unknown_axis_is_refused(script: ModuleType, folder: Path) -> None:
    with pytest.raises(ValueError, match="unknown axis 'nope'"):
        script.jobs_of(["nope"], script.BASE, [0], 1, folder)
