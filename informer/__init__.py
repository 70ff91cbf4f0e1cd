"""Informer: long-horizon time-series forecasting with exchangeable attention mechanisms.

Packages and modules; each imports only from those further down:

  __main__  train  eval  predict  what `python -m` starts
  commands      the console script `informer`, what each command does, and the workflow of `informer forecast`
  forecaster    frames in, frames out, from Python
  service       a model in use: serve, watch, tools of an assistant
  report        one HTML page about a run, an evaluation or forecasts; comparison of runs
  training      one run, from its configuration to its scores
  inference     forecasts of frames, files and folders; rolling forecasts; exports
  scoring       metrics, baselines, intervals; scores of a model and of any forecast file
  checkpoint    checkpoint files: format, safe loading, restoring
  members | build  forecasts without training steps: the pretrained network, theta, linear maps in closed form; the only
                place that creates objects from configuration
  data | pretrained  series to windows on the device, diagnosis of files; the network that comes trained
  read | networks  files to checked series; models, layers, attention, ops (only torch); independent of each other
  config        settings of every command, read from its words, and of training, composed by Hydra
  base          errors, files, runtime, console

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
        from informer.base.start import loading

        with loading():
            from informer.forecaster import Forecaster

        return Forecaster
    raise AttributeError(f"module 'informer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
