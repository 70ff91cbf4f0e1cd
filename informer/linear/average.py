"""The average of forecasts that a model makes: which members it has, and their weights."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Any, final

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from informer.base.errors import InputError
from informer.linear.theta import ThetaMember
from informer.networks.forecast_model import Member
from informer.pretrained.member import PretrainedMember

NAMES = {
    "network": "network",
    "linear": "linear forecast",
    "naive": "seasonal naive",
    "pretrained": "pretrained network",
    "theta": "theta",
}
"""Members of a combination, in words."""


@final
@dataclass(frozen=True, slots=True)
class CombinationWeights:
    """Weights of the average.

    Args:
        network, linear, naive: weights that add up to 1, of the forecasts that are part of the model; `network` is the
            whole model, linear part included.
        pretrained, theta: weights of the network that comes trained and of the theta model; that of the others together
            is what is left of 1.
        version, seasons: of the network that comes trained, and rows of the two seasons that it is given; the theta
            model has the first.
    """

    network: float = 0.0
    linear: float = 1.0
    naive: float = 0.0
    pretrained: float = 0.0
    theta: float = 0.0
    version: str = ""
    seasons: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        weights, local = (self.network, self.linear, self.naive), (self.pretrained, self.theta)
        if not all(weight >= 0 for weight in weights) or abs(sum(weights) - 1) > 1e-6:
            raise InputError(f"combination: expected weights of at least 0 that add up to 1, found {weights}")
        if not all(weight >= 0 for weight in local) or sum(local) > 1 + 1e-6 or min(self.seasons) < 1:
            raise InputError(
                "combination: expected weights of at least 0 that add up to at most 1 and seasons of at least 1, found "
                f"{local} and {self.seasons}"
            )

    @classmethod
    def of(cls, weights: Mapping[str, float], version: str, seasons: tuple[int, int]) -> "CombinationWeights":
        """From weights of all members, by name, that add up to 1."""
        local: dict[str, Any] = {name: weights[name] for name in ("pretrained", "theta") if weights.get(name)}
        parts = {name: weights.get(name, 0.0) for name in ("network", "linear", "naive")}
        total = sum(parts.values())
        own: dict[str, Any] = {name: weight / total for name, weight in parts.items()} if total else {}
        return cls(**own, **local, version=version, seasons=seasons) if local else cls(**own)

    def to_plain(self) -> dict[str, Any]:
        """Return the weights as written to a checkpoint."""
        return asdict(self) | {"seasons": [*self.seasons]}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "CombinationWeights":
        """Read the weights written by `to_plain`.

        Raises:
            InputError: other names, or values of another type.
        """
        kinds = {field.name: type(field.default) for field in fields(cls)} | {"seasons": list}
        found = {name: type(value) for name, value in plain.items()} if isinstance(plain, Mapping) else None
        if found != kinds or [*map(type, plain["seasons"])] != [int, int]:
            raise InputError(f"combination: expected {', '.join(kinds)}, found {plain}")
        return cls(**{**plain, "seasons": tuple(plain["seasons"])})

    @property
    def by_name(self) -> dict[str, float]:
        """The weight of every member; they add up to 1."""
        rest = 1 - self.pretrained - self.theta
        own = {"network": self.network, "linear": self.linear, "naive": self.naive}
        weights = {name: rest * weight for name, weight in own.items()}
        weights |= {"pretrained": self.pretrained, "theta": self.theta}
        return {NAMES[name]: weight for name, weight in weights.items()}

    @property
    def in_words(self) -> str:
        """The weights, without those that are zero."""
        return weights_in_words(self.by_name)


def weights_in_words(weights: Mapping[str, float]) -> str:
    """Weights by name, without those that are zero."""
    return " + ".join(f"{weight:.0%} {name}" for name, weight in weights.items() if weight > 1e-9)


def members_of(
    shares: CombinationWeights, offset: int, weights: Mapping[str, Tensor] | None = None
) -> list[tuple[float, Member]]:
    """Weights and members that are not part of the model.

    Args:
        shares: all weights.
        offset: rows between history and horizon.
        weights: those of the pretrained network, if it was trained further.
    """
    members: list[tuple[float, Member]] = []
    if shares.pretrained:
        member = PretrainedMember(shares.version, shares.seasons, offset=offset, weights=weights)
        members.append((shares.pretrained, member))
    if shares.theta:
        members.append((shares.theta, ThetaMember(shares.seasons[0], offset=offset)))
    return members


PSEUDO = 2
"""Horizons that count for equal weights."""
LEAST_WEIGHT, LEAST_GAIN = 0.05, 0.005
"""Least weight in an average, and least share by which further members must lower the error."""
TINY = 1e-30
"""Added to the errors of members that make none."""


def average_weights(
    products: Float64[np.ndarray, "k k"], horizons: float, *, n_own: int = 0
) -> Float64[np.ndarray, "k"]:
    """Weights of an average of forecasts: 1 / e_i^2 of the members of a subset, the one with the lowest error w^T G w
    (J. M. Bates and C. W. J. Granger, "The combination of forecasts", 1969, section 3).

    Args:
        products: G, mean products of the errors of k forecasts, with e_i^2 on the diagonal. In the weights the e_i are
            shrunk to their geometric mean, as if they had been so in PSEUDO more horizons.
        horizons: number of horizons that do not overlap, from which G comes.
        n_own: forecasts after these get no weight if that raises the error by less than LEAST_GAIN; 0: no difference.
    """
    k, seen = len(products), horizons / (horizons + PSEUDO)
    spread = np.sqrt(np.diag(products)) + TINY
    spread = np.exp(seen * np.log(spread) + (1 - seen) * np.log(spread).mean())
    subsets = np.array([*product((0.0, 1.0), repeat=k)])[1:]
    weights = subsets / spread**2
    weights /= weights.sum(axis=1, keepdims=True)
    weights = weights[((weights == 0) | (weights >= LEAST_WEIGHT)).all(axis=1)]
    errors = np.einsum("si,ij,sj->s", weights, products, weights)
    errors[weights[:, n_own or k :].any(axis=1)] /= 1 - LEAST_GAIN
    return weights[errors.argmin()]
