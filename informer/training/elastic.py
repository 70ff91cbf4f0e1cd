"""Runs whose processes torchrun restarts when one of them ends (`torchrun --max-restarts`)."""

import os


def is_elastic() -> bool:
    """Whether torchrun may restart the processes of the run.

    Whether it did is not known: machines may have different restart counts.
    """
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0


def shares_store() -> bool:
    """Whether restarted processes use the store of those that ended, which still contains their addresses."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)
