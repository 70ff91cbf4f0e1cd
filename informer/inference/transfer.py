"""Remote inputs and outputs: inputs are copied to this machine first, outputs are uploaded at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from informer.base.errors import InputError
from informer.config.commands import PredictConfig
from informer.read.files import WEB, copied_here, is_remote, matches, new_folder, reaching, store_of, without_query
from informer.read.limits import LIMITS

SUMMARY = "summary.csv"
"""Table of a job with the status of each file."""


@contextmanager
def local_copies(settings: PredictConfig) -> Iterator[PredictConfig]:
    """The settings with local paths instead of addresses. At the end, unless there was an error, all files of the
    output folder are written to the address of `output`, the summary last.

    Raises:
        InputError: an address cannot be read or written, or a forecast would overwrite or become an input.
    """
    limit = settings.dataset.max_file_mb
    limits = LIMITS if limit is None else replace(LIMITS, file_mb=limit)
    locations = [
        location for location in (settings.input, settings.future, settings.dataset.attributes) if location is not None
    ]
    addresses = [without_query(value) for value in locations if is_remote(value)]
    output = without_query(settings.output).rstrip("/") if is_remote(settings.output) else None
    if output is not None:
        _check_output(settings, output)
    local = copied_here(settings, ("input", "future", "dataset.attributes"), limits)
    if output is None:
        yield local
        return
    folder = new_folder(output)
    _take_summary(output, folder)
    yield replace(local, output=str(folder))
    _write(folder, output, addresses, overwrite=settings.overwrite)


def _check_output(settings: PredictConfig, output: str) -> None:
    if output.startswith(tuple(f"{scheme}://" for scheme in WEB)):
        raise InputError(f"output={output}: expected a writable folder, found a web address")
    if settings.resume:
        raise InputError(f"resume: expected an output folder on this machine, found output={output}")


def _take_summary(output: str, folder: Path) -> None:
    """Copy an existing summary, so that the job can refuse to replace one it did not write."""
    store, path = store_of(output)
    with reaching(output):
        if store.isfile(f"{path}/{SUMMARY}"):
            (folder / SUMMARY).write_bytes(store.cat_file(f"{path}/{SUMMARY}"))


def _write(folder: Path, output: str, inputs: list[str], *, overwrite: bool) -> None:
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    names = sorted((name for name in names if not name.startswith(".")), key=lambda name: (name == SUMMARY, name))
    for name in names:
        for source in inputs:
            if matches(f"{output}/{name}", source):
                raise InputError(
                    f"output={output}: expected another folder than that of the input {source}; choose one"
                )
    store, path = store_of(output)
    with reaching(output):
        if existing := [] if overwrite else [name for name in names if store.exists(f"{path}/{name}")]:
            raise InputError(
                f"output={output}: expected a new or empty folder, found {existing[0]} in it; choose another, or "
                "overwrite=true"
            )
        store.makedirs(path, exist_ok=True)
        for name in names:
            store.pipe_file(f"{path}/{name}", (folder / name).read_bytes())
