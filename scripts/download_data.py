"""Download datasets to the data folder and verify them: `python scripts/download_data.py ETTh1 ETTm1`.

Training downloads missing files itself; this is for machines without a network. Those without a stable address:
the error says where to get them.
"""

import argparse
import os
import sys
from pathlib import Path

from informer.base.errors import InputError
from informer.base.runtime import resource
from informer.config.conversion import node_of, read_saved_yaml
from informer.config.data import DatasetConfig
from informer.read.files import file_sha256, find_file


def main() -> int:
    """Download the datasets; returns the exit status: 0, or 2 if one is not available."""
    names = sorted(path.stem for path in resource("conf/dataset").glob("*.yaml"))
    parser = argparse.ArgumentParser(description="Fetch data sets and check them.")
    parser.add_argument("names", nargs="+", choices=names, metavar="name", help=", ".join(names))
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("INFORMER_DATA_DIR", "data")))
    args = parser.parse_args()
    status = 0
    for name in args.names:
        config = node_of(DatasetConfig, read_saved_yaml(resource("conf/dataset") / f"{name}.yaml"))
        try:
            path = find_file(config, args.data_dir)
            digest = file_sha256(path)
        except (InputError, OSError) as error:
            print(error, file=sys.stderr)
            status = 2
            continue
        differs = "not the published file" if config.sha256 else "unchecked"
        print(f"{path}: sha256 {digest} ({'as published' if digest == config.sha256 else differs})")
    return status


if __name__ == "__main__":
    sys.exit(main())
