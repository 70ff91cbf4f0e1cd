"""What the tests catch: 100 small faults, each written into a copy of the package and run against tests that reach it.

    python scripts/mutants.py [--seed 0] [--count 100] [--tests tests/corpus tests/golden ...]

Faults are drawn by the seed: a third in `informer/read`, and as many of each kind (comparisons, arithmetic, constants,
conditions). The tests run once with branch coverage, which says for each test the lines it reaches; a second call goes
on from there. A fault is caught if one of the tests that reach its line fails: first some of them, drawn by the seed,
then the others, for at most `SECONDS`. A line of no test is one of its module's. Needs a system that forks.
"""

import argparse
import ast
import compileall
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import coverage

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "mutants"
TREE, DATA, TIMES = WORK / "tree", WORK / "coverage", WORK / "times.xml"
NET = [f"tests/{name}" for name in ("corpus", "golden", "stories", "contracts", "generated", "attention")]

SECONDS = (8.0, 60.0)
"""How long the tests of a fault take without it: those that run first, and all."""

MOST_SECONDS = 240
"""A fault that needs more has made a loop endless, and is caught."""

LOADED = "pandas polars pyarrow.parquet pydantic sklearn.linear_model tensorboard torch"
"""Libraries that are imported once, before the processes of the faults begin."""

COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
               ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is"}  # fmt: skip
ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*"}


class Mutant(NamedTuple):
    """A change of one place of a file: the text between two positions (bytes) becomes another."""

    file: str
    line: int
    start: int
    end: int
    text: str

    def changed(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutants_of(file: str) -> Iterator[tuple[str, Mutant]]:
    """Every change of a file that is known here, by its kind; types, texts and `__main__` are left as they are."""
    source = (TREE / file).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        return starts[line - 1] + column

    def mutant(node: ast.expr, text: str, *, after: ast.expr | None = None, before: ast.expr | None = None) -> Mutant:
        start = at(after.end_lineno or 0, after.end_col_offset or 0) if after else at(node.lineno, node.col_offset)
        end = at(before.lineno, before.col_offset) if before else at(node.end_lineno or 0, node.end_col_offset or 0)
        return Mutant(file, node.lineno, start, end, text)

    def inverted(node: ast.expr) -> Mutant:
        return mutant(node, f"(not ({ast.get_source_segment(source.decode(), node)}))")

    def between(left: ast.expr, right: ast.expr, sign: str) -> Iterator[Mutant]:
        found = mutant(left, f" {sign} ", after=left, before=right)
        if set(source[found.start : found.end].decode()) <= set(" +-*/%<>=!andiosrt"):  # no brackets, no end of line
            yield found

    for node in code_of(ast.parse(source)):
        match node:
            case ast.Compare(left=left, ops=[sign], comparators=[right]):
                yield from (("comparison", each) for each in between(left, right, COMPARISONS[type(sign)]))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in ARITHMETIC and not texts(left, right):
                yield from (("arithmetic", each) for each in between(left, right, ARITHMETIC[type(sign)]))
            case ast.Constant(value=bool(value)):
                yield "constant", mutant(node, str(not value))
            case ast.Constant(value=int(value) | float(value)):
                yield "constant", mutant(node, repr(value + 1))
            case ast.BoolOp(op=sign, values=[left, right]):
                word = "or" if isinstance(sign, ast.And) else "and"
                yield from (("condition", each) for each in between(left, right, word))
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.comprehension(ifs=[test]):
                yield "condition", inverted(test)


def texts(*nodes: ast.expr) -> bool:
    return any(
        isinstance(node, ast.JoinedStr | ast.List) or isinstance(getattr(node, "value", 0), str) for node in nodes
    )


def code_of(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes of what runs: no annotations, no texts with values in them, no imports for types."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns") or isinstance(value, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from code_of(child)


def drawn(count: int, seed: int) -> list[tuple[str, Mutant]]:
    """Mutants by the seed, a third in `read` and each kind as often."""
    by_kind: dict[tuple[bool, str], list[Mutant]] = {}
    for path in sorted((TREE / "informer").rglob("*.py")):
        file = path.relative_to(TREE).as_posix()
        for kind, mutant in mutants_of(file):
            by_kind.setdefault((file.startswith("informer/read/"), kind), []).append(mutant)
    kinds, generator = ("comparison", "arithmetic", "constant", "condition"), random.Random(seed)
    keys = [(number % 3 == 0, kinds[number // 3 % 4]) for number in range(count)]
    return [(kind, generator.choice(by_kind[read, kind])) for read, kind in keys]


def measure(tests: list[str]) -> None:
    """Copy what git tracks, and run the tests there once, with the lines that each reaches and its seconds."""
    shutil.rmtree(WORK, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (TREE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, TREE / name)
    command = [sys.executable, "-m", "pytest", "-q", *tests, f"--junitxml={TIMES}"]
    command += ["--cov=informer", "--cov-branch", "--cov-context=test", "--cov-report="]
    subprocess.run(command, cwd=TREE, env=os.environ | {"COVERAGE_FILE": str(DATA)}, check=False)
    compileall.compile_dir(TREE / "informer", quiet=2)


def seconds_of_tests() -> dict[str, float]:
    """Tests that pass, and how long each takes."""
    cases = [case for case in ET.parse(TIMES).iter("testcase") if case.find("*") is None]
    names = [f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}" for case in cases]
    return {name: float(case.get("time", 0)) for name, case in zip(names, cases, strict=True)}


def reaching(mutant: Mutant, data: coverage.CoverageData, seconds: dict[str, float]) -> list[list[str]]:
    """The tests that reach a line, those that run first and the others; of a line of no test, those of its module."""
    lines = data.contexts_by_lineno(str(TREE / mutant.file))
    contexts = lines.get(mutant.line, [])
    tests = {name for context in contexts if (name := context.partition("|")[0]) in seconds}
    tests |= set() if tests else {name.partition("|")[0] for found in lines.values() for name in found} & set(seconds)
    order = sorted(tests)
    random.Random(mutant.start).shuffle(order)
    parts: list[list[str]] = []
    for limit in SECONDS:
        part, total = list[str](), 0.0
        for name in order:
            if total + seconds[name] <= limit or not part:
                part.append(name)
                total += seconds[name]
        order = [name for name in order if name not in part]
        parts.append(part)
    return [part for part in parts if part]


def fails(tests: list[str]) -> bool:
    """Whether one of the tests fails, in a process of its own, which inherits the libraries."""
    child = os.fork()
    if child == 0:
        os.chdir(TREE)
        sys.path.insert(0, str(TREE))
        signal.alarm(MOST_SECONDS)
        with (WORK / "last.log").open("w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        import pytest

        os._exit(int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests])))
    return os.waitpid(child, 0)[1] != 0


def main() -> None:
    """Measure if that was not done, then print a line for each mutant and the share that is caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--tests", nargs="+", default=NET, help="folders and files of tests")
    options = parser.parse_args()
    if not TIMES.exists():
        measure(options.tests)
    os.nice(10)
    os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True
    for name in LOADED.split():
        importlib.import_module(name)
    data, seconds = coverage.CoverageData(str(DATA)), seconds_of_tests()
    data.read()
    if not seconds or fails(random.Random(options.seed).sample(sorted(seconds), 10)):
        raise SystemExit(f"error: tests fail without a fault, see {WORK / 'last.log'}")
    caught = []
    for number, (kind, mutant) in enumerate(drawn(options.count, options.seed), 1):
        began, path = time.perf_counter(), TREE / mutant.file
        whole, parts = path.read_bytes(), reaching(mutant, data, seconds)
        try:
            path.write_bytes(mutant.changed(whole))
            caught.append(any(fails(part) for part in parts))
        finally:
            path.write_bytes(whole)
        old = whole[mutant.start : mutant.end].decode()
        verdict = "caught  " if caught[-1] else "survived" if parts else "unseen  "
        took = time.perf_counter() - began
        place = f"{mutant.file}:{mutant.line}"
        print(
            f"{number:3} {verdict} {took:5.1f} s  {place}  {kind}: {json.dumps(old)} -> {json.dumps(mutant.text)}",
            flush=True,
        )
    print(f"{sum(caught)} of {len(caught)} are caught")


if __name__ == "__main__":
    main()
