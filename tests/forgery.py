"""Files changed on purpose, with a matching digest."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from informer.checkpoint.format import content_digest


def content_of(path: Path) -> dict[str, Any]:
    """Content of a .pt file without its digest."""
    content = torch.load(path, weights_only=True)
    del content["digest"]
    return content


def write_forged(path: Path, content: Mapping[str, Any]) -> None:
    """A checkpoint file with this content and its digest, which is noted in the run that the file is of, too."""
    digest = content_digest(dict(content))
    torch.save({**content, "digest": digest}, path)
    facts = path.with_name("run.json")
    if facts.exists():
        noted = json.loads(facts.read_text())
        facts.write_text(json.dumps(noted | {"digests": noted.get("digests", {}) | {path.name: digest}}))
