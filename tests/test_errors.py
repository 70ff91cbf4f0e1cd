"""Numbers with what they count."""

import pytest

from informer.base.errors import counted


@pytest.mark.parametrize(("n", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_counted(n: int, text: str) -> None:
    assert counted(n, "file") == text
