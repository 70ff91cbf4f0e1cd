"""What commands and Python say to a wrong call, and that it leaves nothing behind: `refusals.json` has the
words of each call (Python begins with >>>), and the code and the lines of its answer. This wording is in no other test.

`python tests/contracts/test_refusals.py --record` writes what is said today. To add a call, write its words with `{}`.
"""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from entry_points import COMMANDS, ROOT, SMALL, Outcome, Trained, call, done

from informer import Forecaster, InputError

STORED = Path(__file__).with_name("refusals.json")
CALLS: dict[str, dict[str, list[str]]] = json.loads(STORED.read_text(encoding="utf-8"))


def made(folder: Path) -> None:
    """Tables of the columns of the sample: one that is good, one that ends soon after the training rows, and one in
    which a row is missing and the last one is there twice; and a file where a folder may be wanted."""
    rows = (ROOT / "data" / "sample.csv").read_text().splitlines(keepends=True)[:321]
    for name, own in (("good", rows), ("early", rows[:255]), ("bad", [*rows[:305], *rows[306:], rows[-1]])):
        (folder / f"{name}.csv").write_text("".join(own))
    (folder / "file.txt").write_text("in the way")


def said(words: str, run: Path) -> dict[str, list[str]]:
    """The code and the lines of a call in the current folder, which must be refused; RUN stands for a run on the
    sample. Words that are good are added, except to calls that begin with `informer`."""
    if words.startswith(">>>"):
        return said_by_python(words[3:].strip(), run)
    entry, *given = shlex.split(words.replace("RUN", str(run)))
    if entry == "informer":
        return answer_of(call(*given, *(["--json"] if given[0] in COMMANDS else [])), run)
    good = {"train": ["dataset=sample", *SMALL], "forecast": ["good.csv"]}.get(entry, [f"checkpoint={run}"])
    if entry == "predict" and not any("input" in word for word in given):
        good = ["input=good.csv", *good]
    options = [word for word in given if word.startswith("--")]
    given = [word for word in given if word not in options]
    return answer_of(call(entry, *options, "--json", *good, *given), run)


def said_by_python(code: str, run: Path) -> dict[str, list[str]]:
    """The same of an expression, which may use `frame`, 100 rows of the sample, `shops`, two series of these rows,
    `ahead`, four rows of prices after them, `zero`, and `tiny`, the settings of a short training."""
    frame = pd.read_csv("good.csv", parse_dates=["date"])
    tiny = {"model": "tiny", "seq_len": 12, "label_len": 6, "pred_len": 3, "trainer": {"max_steps": 1}}
    names = {"np": np, "pd": pd, "Forecaster": Forecaster, "RUN": run, "zero": Forecaster(), "tiny": tiny}
    names |= {"frame": frame[:100], "ahead": frame[100:104][["date", "price"]]}
    names["shops"] = pd.concat([frame[:100].assign(store=store) for store in (1, 2)])
    with pytest.raises(InputError) as refused:
        eval(code, names)
    return {refused.value.code: [line.replace(str(run), "RUN") for line in str(refused.value).splitlines()]}


def answer_of(outcome: Outcome, run: Path) -> dict[str, list[str]]:
    """By the kind that `--json` tells; an unknown command has no answer but its line."""
    lines = outcome.err.splitlines()
    assert outcome.status == 2, outcome
    assert all(line.startswith("error: ") for line in lines), outcome.err
    errors = [line.removeprefix("error: ") for line in lines]
    answer = json.loads(outcome.out) if outcome.out else {"code": "command", "exit_status": 2, "errors": errors}
    assert (answer["exit_status"], answer["errors"]) == (2, errors)
    return {answer["code"]: [line.replace(str(run), "RUN") for line in errors]}


@pytest.mark.parametrize("words", CALLS)
def test_a_wrong_call(
    words: str, folder: Path, trained: Trained, tree: Callable[[Path], dict[str, bytes | None]]
) -> None:
    """Red if a wrong call is answered with a traceback, other words or another status, or leaves or changes a file."""
    made(folder)
    before, run = tree(folder), tree(trained.run_dir)
    assert said(words, trained.run_dir) == CALLS[words]
    assert tree(folder) == before
    assert tree(trained.run_dir) == run


def record() -> None:
    """Write what is said today."""
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        done("train", "dataset=sample", *SMALL, "run_dir=run")
        Path("here").mkdir()
        os.chdir("here")
        made(Path())
        found = {words: said(words, Path(place, "run")) for words in CALLS}
    STORED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
