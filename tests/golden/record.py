"""`python tests/golden/record.py [NAME ...]`: store the numbers of golden runs anew; what changes is shown."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from golden_runs import RUNS, STORED, differences, run  # noqa: E402 (needs the path)


def main() -> None:
    """Store each run, or those that are named; of a run that is gone the file goes."""
    for path in STORED.glob("*.json"):
        if path.stem not in RUNS:
            path.unlink()
    for name in sys.argv[1:] or RUNS:
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            found = run(name, Path(folder))
            os.chdir(STORED)
        path = STORED / f"{name}.json"
        stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        lines = ",\n".join(f"{json.dumps(place)}: {json.dumps(values)}" for place, values in found.items())
        path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        print(f"{name}: {time.process_time() - began:.1f} s of CPU time", *differences(name, found, stored), sep="\n")


if __name__ == "__main__":
    main()
