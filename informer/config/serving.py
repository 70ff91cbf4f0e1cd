"""Configuration of `informer serve`: forecasts over HTTP."""

from dataclasses import dataclass, field

from informer.config.input_format import InputFormat
from informer.runtime import device_problems


@dataclass(kw_only=True, slots=True)
class ServeConfig:
    """`informer serve checkpoint=RUN`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 means every address of the machine."""
    port: int = 8000
    """Port to listen on; 0: any free port, printed at the start."""
    device: str = "auto"
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""
    dataset: InputFormat = field(default_factory=InputFormat)
    """Format of the tables in requests, if different from the training data."""
    batch_size: int = 16
    """Series per forward pass; every pass is padded to this size, so that answers do not depend on other requests."""
    timeout: float = 30.0
    """Seconds from the first byte of a request to its answer."""
    max_mb: float = 10.0
    """Maximum size of a request's body in MB."""
    max_series: int = 1000
    """Maximum number of series in a request."""
    max_horizon: int = 1000
    """Maximum number of rows to forecast."""
    max_requests: int = 128
    """Maximum number of requests in progress; further ones are refused at once."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = self.dataset.problems() + device_problems(self.device)
        if self.dataset.attributes is not None:
            problems.append("dataset.attributes: expected none; requests contain the attributes of new series")
        if not 0 <= self.port <= 65535:
            problems.append(f"port: expected 0 to 65535, found {self.port}")
        for name in ("batch_size", "max_series", "max_horizon", "max_requests"):
            if (value := getattr(self, name)) < 1:
                problems.append(f"{name}: expected at least 1, found {value}")
        for name in ("timeout", "max_mb"):
            if not 0 < (value := getattr(self, name)) <= 1e6:
                problems.append(f"{name}: expected more than 0, at most 1e6, found {value}")
        return problems
