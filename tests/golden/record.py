"""`python tests/golden/record.py [NAME ...]`: store the results of golden runs anew; `git diff` shows what changed."""

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from golden_runs import CASES, STORED, run, text  # noqa: E402 (needs the path)


def main() -> None:
    """Store each case, or those that are named; of a case that is gone the file goes."""
    STORED.mkdir(exist_ok=True)
    for path in STORED.glob("*.json"):
        if path.stem not in CASES:
            path.unlink()
    for name in sys.argv[1:] or CASES:
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            results = run(name, Path(folder))
            os.chdir(STORED)
        (STORED / f"{name}.json").write_text(text(results) + "\n", encoding="utf-8")
        print(f"{name}: {time.process_time() - began:.1f} s of CPU time", flush=True)


if __name__ == "__main__":
    main()
