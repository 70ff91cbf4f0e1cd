"""How long a run will train on this machine, from a few timed steps of its own network."""

import time
from collections.abc import Sequence
from dataclasses import replace

import hydra
from rich.console import Console

from informer.base.runtime import pick_device, seed_everything
from informer.base.start import StopRequest
from informer.build import build_data, resolve_decoder
from informer.config.data import Transform
from informer.config.hydra_compose import CONF, for_hydra, register, to_typed
from informer.training.curves import Tracker
from informer.training.loop import Session, train_step, window_order
from informer.training.processes import Processes
from informer.training.start import new_network
from informer.training.state import Checkpointer

WARM_UP, TIMED = 1, 3
"""Steps before the clock starts, and steps that are timed."""


def expected(keys: Sequence[str]) -> str:
    """The training time of a run with these keys of informer.train if it is not stopped early, in words.

    Raises:
        InputError: as in training.
    """
    register()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        settings = to_typed(hydra.compose("train", overrides=for_hydra(keys, is_sweep=False)))
    decoder_attn, _ = resolve_decoder(settings.attn, settings.decoder_attn)
    scaler = replace(settings.scaler, transform=Transform.none)  # whose choice does not change the time of a step
    settings, device = replace(settings, decoder_attn=decoder_attn, scaler=scaler), pick_device(settings.device)
    data = build_data(settings, device)
    n_windows, trainer = len(data.train), settings.trainer
    if not (n_steps := trainer.n_steps(n_windows)):
        return "fitted in closed form, without steps"
    seed_everything(settings.seed)
    model = new_network(settings, data).to(device).train()
    checkpointer = Checkpointer(
        lambda state, is_best: None, every_minutes=None, stop=StopRequest(), processes=Processes(), device=device
    )
    with Tracker({}, n_steps=n_steps, console=Console(quiet=True)) as tracker:
        session = Session.begin(settings, model, data, tracker=tracker, checkpointer=checkpointer)
        for step, indices in enumerate(window_order(data.train, seed=0, epoch=0).split(trainer.batch_size)):
            if step == WARM_UP:
                began = time.perf_counter()
            if step == WARM_UP + TIMED:
                break
            float(train_step(session, indices)[0])  # waits for a GPU
        seconds = (time.perf_counter() - began) / TIMED
    epochs = -(-n_steps // trainer.epoch_steps(n_windows))
    return (
        f"at most {seconds * n_steps / 60:.1f} minutes of training: {n_steps:,} steps of {seconds:.2g} s in "
        f"{epochs} epochs, fewer if validation stops it"
    )
