"""Search hyper-parameters with Optuna (the extra `search`) by validation loss.

    python scripts/search.py --trials 20 --output runs/search dataset=ETTh1 pred_len=24

The grid is in conf/experiment/search.yaml; experiment=NAME reads another file of that folder, and every other key=value
is set for all trials and not searched. A trial is a run like any other, in a separate folder below --output; the same
command continues the search.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, RangeSweep
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from informer import checkpoint
from informer.base.console import refuse, say
from informer.base.errors import InputError
from informer.base.runtime import resource
from informer.base.start import Interrupted
from informer.config.hydra_compose import check_groups, explained, register, to_typed
from informer.search.stage import train
from informer.training.folder import RunFolder

try:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
except ImportError:
    refuse("scripts/search.py: expected optuna, found none; pip install optuna")


def space(overrides: list[str]) -> dict[str, Any]:
    """The sweeps of `hydra.sweeper.params` by key, without keys set by the user."""
    composed = compose("train", overrides, return_hydra_config=True)
    params: Any = OmegaConf.to_container(composed.hydra.sweeper.params) or {}
    parser = OverridesParser.create()
    overridden = {override.partition("=")[0] for override in overrides}
    return {
        key: parser.parse_override(f"{key}={sweep}").value() for key, sweep in params.items() if key not in overridden
    }


def suggest(trial: optuna.Trial, key: str, sweep: Any) -> Any:
    """A value of one sweep: choice(...), interval(...) or range(...), log-scaled with tag(log, ...)."""
    if isinstance(sweep, ChoiceSweep):
        return trial.suggest_categorical(key, sweep.list)  # type: ignore[arg-type]
    if isinstance(sweep, IntervalSweep):
        return trial.suggest_float(key, float(sweep.start), float(sweep.end), log="log" in sweep.tags)  # type: ignore[arg-type]
    if isinstance(sweep, RangeSweep):
        return trial.suggest_int(key, int(sweep.start), int(sweep.stop) - 1, step=int(sweep.step))  # type: ignore[arg-type]
    raise InputError(f"{key}: expected choice(...), interval(...) or range(...), found {sweep}")


def opened(folder: Path, fixed: list[str]) -> optuna.Study:
    """The search saved in a folder, or a new one.

    Raises:
        InputError: the saved search has other settings, so its losses are not comparable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    storage = JournalStorage(JournalFileBackend(str(folder / "study.log")))
    study = optuna.create_study(study_name="informer", storage=storage, load_if_exists=True)
    saved = study.user_attrs.get("overrides", fixed)
    if saved != fixed:
        raise InputError(f"{folder}: expected a search with {fixed}, found one with {saved}; choose another --output")
    study.set_user_attr("overrides", fixed)
    study.sampler = optuna.samplers.TPESampler(seed=len(study.trials))  # going on, other draws than the first time
    return study


def search() -> None:
    """Run the trials and print the best."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--output", type=Path, default=Path("runs/search"))
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    options = parser.parse_args()
    if options.trials < 1:
        raise InputError(f"--trials: expected at least 1, found {options.trials}")
    fixed = options.overrides
    if not any(key.startswith("experiment=") for key in fixed):
        fixed = ["experiment=search", *fixed]
    check_groups(fixed)
    register()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    console = Console()
    with initialize_config_dir(str(resource("conf").resolve()), version_base="1.3"):
        sweeps = space(fixed)
        to_typed(compose("train", fixed))  # reports errors before anything is written
        study = opened(options.output, fixed)

        def objective(trial: optuna.Trial) -> float:
            drawn = [f"{key}={suggest(trial, key, sweep)}" for key, sweep in sweeps.items()]
            console.print(f"trial {trial.number}: {' '.join(drawn)}", markup=False, highlight=False)
            run_dir = options.output / f"trial-{trial.number}"
            try:
                train(to_typed(compose("train", [*fixed, *drawn])), RunFolder(run_dir), console)
            except InputError as error:  # such as a diverging learning rate: the other trials continue
                say(console, f"trial {trial.number} failed: {error}")
                raise optuna.TrialPruned from error
            return checkpoint.load(run_dir).val_loss

        study.optimize(objective, n_trials=options.trials)
    if not any(trial.state is optuna.trial.TrialState.COMPLETE for trial in study.trials):
        raise InputError("search: all trials failed; see the errors above")
    best = study.best_trial
    values = " ".join(f"{key}={value}" for key, value in best.params.items())
    say(console, f"best of {len(study.trials)}: trial {best.number}, validation loss {best.value:.5f}: {values}")


def main() -> None:
    """Search; a user's mistake is one line."""
    logging.getLogger("informer").setLevel(logging.WARNING)
    try:
        search()
    except InputError as error:
        refuse(str(error))
    except (HydraException, OmegaConfBaseException) as error:
        refuse(explained(error))
    except Interrupted as interrupted:
        sys.exit(interrupted.exit_status)


if __name__ == "__main__":
    main()
