"""Informer: long-horizon forecasts of time series, with attention mechanisms to swap.

Layers of the package; a module imports from its own line or from the lines below it, never from above:

  predict                   entry points: compose, build, act, write
  forecaster                tables in, forecasts out, from Python
  train  eval  export  inspect
  search                    what is left open chosen on validation, before a run
  cli  run_folder           Hydra, and a user's mistake as one line; the folder that a run keeps itself in
  warm_start                a new run that begins with the weights of another
  conversion                a configuration as Hydra composes it, typed, plain, as yaml
  config                    the typed configuration
  training                  one run, from the first step to the last
  inference  compat         scores over windows, forecasts; weights of the authors' code
  restore                   a checkpoint's content, checked, to its network
  build                     the only place that turns configuration into objects
  model   | data            the network; CSV to windows on the device; neither knows the other
  layers  | checkpoint      one file that holds a trained model
  attention                 one mechanism a file; base says what one is
  archive                   reading files of tensors that may come from anyone
  metrics  quantiles  plots  runtime  files  errors

    from informer import Forecaster
    Forecaster.fit(frame, target="sales", model="small").predict(frame)
"""

import os
from typing import TYPE_CHECKING, Any

# Waiting threads that spin keep the cores from those that work: on two busy cores a small training step then takes 50
# times as long. OpenMP reads this when torch is first imported; who has set it keeps their choice.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from informer.forecaster import Forecaster

__version__ = "0.1.0"
__all__ = ["Forecaster", "__version__"]


def __getattr__(name: str) -> Any:
    # torch and pandas take seconds to import; who asks for the version need not wait for them
    if name == "Forecaster":
        from informer.forecaster import Forecaster

        return Forecaster
    raise AttributeError(f"module 'informer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
