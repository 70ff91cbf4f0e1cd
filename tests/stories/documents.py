"""The stories that the documents tell: the commands and the Python of each heading, in order.

The language of a fenced block says what it is. A block without one (or `sh`, `bash`) has a command in every line, or,
where lines begin with `$`, commands with what they print; `python` is run; `json`, `text`, `csv` and `yaml` are shown.
"""

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from entry_points import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "data" / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "results" not in page.parts),
]
"""All but the tables of results, which are records of the runs that they name."""
COMMANDS, SHOWN = {"", "sh", "bash"}, {"json", "text", "csv", "yaml"}


class Block(NamedTuple):
    """A fenced block: the first line of its text is `line` of the page."""

    language: str
    line: int
    text: str


class Story(NamedTuple):
    """What stands in code below a heading of a page."""

    page: str
    heading: str
    blocks: list[Block]

    def __str__(self) -> str:
        return f"{self.page}: {self.heading}"


class Command(NamedTuple):
    """A line for the shell, and the lines that it is shown to print."""

    line: str
    prints: list[str]


def stories() -> Iterator[Story]:
    """Headings with something to run, in the order of the pages."""
    for page in PAGES:
        found: dict[str, list[Block]] = {}
        heading, language, inside = "", None, list[str]()
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("```") and language is not None:
                found.setdefault(heading, []).append(Block(language, number - len(inside), "\n".join(inside)))
                language, inside = None, []
            elif line.startswith("```"):
                language = line[3:]
            elif language is not None:
                inside.append(line)
            elif line.startswith("#"):
                heading = line.strip("# ")
        for heading, blocks in found.items():
            if any(block.language not in SHOWN for block in blocks):
                yield Story(str(page.relative_to(ROOT)), heading, blocks)


def commands(text: str) -> list[Command]:
    """The commands of a block; a line that ends with a backslash goes on in the next one."""
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    if not any(line.startswith("$ ") for line in lines):
        return [Command(line, []) for line in lines if line]
    found: list[Command] = []
    for line in lines:
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        else:
            found[-1].prints.append(line)
    return found


def parts(line: str) -> list[list[str]]:
    """The words of each command of a line (`&&`, `||` and `;` separate them), without comments and times of cron."""
    lexer = shlex.shlex(re.sub(r"^[\d*/]+( [\d*/]+){4} ", "", line), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set(";&|"):
            found.append([])
        else:
            found[-1].append(word)
    return [words for words in found if words]
