"""Runs whose processes torchrun starts again when one of them ends (`torchrun --max-restarts`)."""

import os


def is_elastic() -> bool:
    """Whether torchrun may start the processes of the run again.

    Not whether it did: the number of restarts is that of one machine, which another may not share.
    """
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0


def shares_store() -> bool:
    """Whether processes that were started again meet in the store of those that ended, whose addresses are in it."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)
