"""The Dockerfile copies files that exist and reach the build, and starts a command with keys that it has."""

import json
import re
import shlex

from entry_points import ROOT, call

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    """Red when a file of the build is moved, or .dockerignore leaves it out."""
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.M) for name in shlex.split(line)[:-1]}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)


def test_its_command_is_known() -> None:
    """Red when a key of the entry point is renamed."""
    program, command, *keys = json.loads(re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.M)[0])
    assert (program, command) == ("informer", "serve")
    outcome = call("serve", "--cfg", "job", *keys)
    assert (outcome.status, outcome.err) == (0, "")
    assert "host: 0.0.0.0\n" in outcome.out
    assert "EXPOSE 8000\n" in DOCKERFILE
    assert "\nport: 8000\n" in outcome.out
