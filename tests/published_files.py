"""Where the published data files are, for the tests that read them."""

import os
from pathlib import Path

import pytest
from entry_points import ROOT

# read here, at import: a fixture keeps the variable from the tests themselves
GIVEN = os.environ.get("INFORMER_DATA_DIR")
FOLDERS = [Path(GIVEN) if GIVEN else ROOT / "data", ROOT.parent / "shared" / "data"]


def published_folder(file: str) -> Path:
    """The folder of a published file; skips the test without one."""
    for folder in FOLDERS:
        if (folder / file).exists():
            return folder
    return pytest.skip(f"{file} is not in data or INFORMER_DATA_DIR")
