"""Weights of the network that comes trained."""

import hashlib
import json
from pathlib import Path

from safetensors import safe_open

from informer.base.errors import FileError, one_of
from informer.networks.models.zero import Zero

VERSIONS = {"zero-3": "98541600c13c31225a2df714922a427b6680f617b3b26db8d472d3d7354a2d8d"}
"""Weights in the package, the newest last, and their sha256."""
NEWEST = list(VERSIONS)[-1]


def weights_path(version: str) -> Path:
    """The file of one of VERSIONS."""
    return Path(__file__).with_name(f"{version}.safetensors")


def load(version: str = NEWEST) -> Zero:
    """The trained network, in eval mode on the CPU.

    Raises:
        InputError: no such version, or a damaged file.
    """
    if version not in VERSIONS:
        raise one_of("version of the pretrained network", version, list(VERSIONS))
    path = weights_path(version)
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != VERSIONS[version]:
        raise FileError(f"{path}: missing or damaged; install informer-forecasting again")
    with safe_open(path, framework="pt") as file:
        network = Zero(**json.loads(file.metadata()["network"]))
        network.load_state_dict({name: file.get_tensor(name).float() for name in file.keys()})  # noqa: SIM118
    return network.eval()
