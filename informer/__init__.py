"""Informer: long-horizon time-series forecasting with exchangeable attention mechanisms.

Modules and packages; each imports only from those further down:

  __main__  cli  the console script `informer`, which runs a command:
  forecast  train  eval  predict  watch  update  export  inspect  report  score  compare  serve
  watching      monitoring of a model: forecasts compared with actual values, drift, recommended action
  workflow      informer forecast: from a file to forecasts and a report
  forecaster    frames in, frames out, from Python
  updating      updates of a trained run with later rows
  reporting     one HTML page about a run, an evaluation or forecasts; comparison of runs
  serving       forecasts over HTTP
  scoring       scores of any forecast file and of baselines
  search        model=auto: choice of a model and its settings on validation data before a run
  training      one run, from its configuration to its report
  inference     forecasts, scores compared with baselines, intervals; jobs: many files
  compat        weights from the authors' code
  checkpoint    checkpoint files: format, safe loading, restoring
  linear        linear forecasts in closed form, from moments
  build         the only place that creates objects from configuration
  models | data networks; CSV to windows on the device (data.read: file to series); independent of each other
  pretrained    the network that forecasts series it has never seen
  layers        embedding, encoder, decoder, distilling
  attention     one mechanism per file; base defines the interface
  ops           fast versions of plain torch expressions
  config        schema of every command, composition by Hydra
  console  metrics  quantiles  plots  runtime  locking  files  errors  start  progress  units
  synthetic     generated series for the pretraining

    from informer import Forecaster
    Forecaster.fit(frame, target="sales", model="small").predict(frame)
"""

import os
from typing import TYPE_CHECKING, Any

# Idle threads that spin take cores from working ones: on two busy cores a small training step then takes 50 times as
# long. OpenMP reads this when torch is first imported; a value set by the user is kept.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from informer.forecaster import Forecaster

__version__ = "0.1.0"
__all__ = ["Forecaster", "__version__"]


def __getattr__(name: str) -> Any:
    # torch and pandas take seconds to import; asking for the version should not need them
    if name == "Forecaster":
        from informer.forecaster import Forecaster

        return Forecaster
    raise AttributeError(f"module 'informer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
