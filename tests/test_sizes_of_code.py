"""How much of the code one reads at a time: lines of a file and of a function, parameters of a function."""

import ast
from collections.abc import Iterator

from entry_points import ROOT

PACKAGE = ROOT / "informer"

MOST_FILE_LINES, MOST_LINES, MOST_PARAMETERS = 300, 50, 8

EXCEPTIONS = {
    "attention/blocks.py: band": "operands, dropout and the shape of a band: all are of the formula",
    "attention/blocks.py: tiles": "operands, dropout and the shape of the tiles: all are of the formula",
    "attention/prob.py: ProbAttention.__init__": "hyper-parameters of conf/attn/prob.yaml, one keyword each",
    "attention/prob.py: probsparse": "operands and the choices of the algorithm, one keyword each",
}
"""What takes more than MOST_PARAMETERS, and why."""


def functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of a file, methods as `Class.method` where the class has a name that helps."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inside + node.name, node
            yield from functions(node)
        else:
            yield from functions(node, f"{node.name}." if isinstance(node, ast.ClassDef) else inside)


def n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without self and cls, and without autograd's ctx."""
    arguments = function.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return len(names) - (names[:1] in (["self"], ["cls"], ["ctx"])) + len(arguments.kwonlyargs) + len(more)


def test_files_and_functions_are_short() -> None:
    """Red when a file, a function or a list of parameters grows, or an exception is no longer needed."""
    wrong, excepted = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        where, text = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
        if len(text.splitlines()) > MOST_FILE_LINES:
            wrong.append(f"{where}: {len(text.splitlines())} lines")
        for name, node in functions(ast.parse(text)):
            assert node.end_lineno is not None
            if (lines := node.end_lineno - node.lineno + 1) > MOST_LINES:
                wrong.append(f"{where}: {name}: {lines} lines")
            if (parameters := n_parameters(node)) <= MOST_PARAMETERS:
                continue
            if f"{where}: {name}" in EXCEPTIONS:
                excepted.add(f"{where}: {name}")
            else:
                wrong.append(f"{where}: {name}: {parameters} parameters")
    assert wrong == []
    assert excepted == set(EXCEPTIONS)


def test_scripts_are_short() -> None:
    """Red when a script has more lines than a file of the package may have."""
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "scripts").glob("*.py")}
    assert {name: n for name, n in lines.items() if n > MOST_FILE_LINES} == {}


def test_the_count_is_right() -> None:
    """Red if a keyword, a starred parameter or a function within another is not counted."""
    code = "class A:\n    def f(self, a, /, b, *c, d, **e):\n        async def g(x): ...\n"
    assert [(name, n_parameters(node)) for name, node in functions(ast.parse(code))] == [("A.f", 5), ("g", 1)]
