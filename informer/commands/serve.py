"""`informer serve checkpoint=runs/latest`: forecasts over HTTP; CSV or JSON tables in, forecasts with intervals out."""

from importlib.util import find_spec

from informer.base.console import main_console
from informer.base.errors import InputError
from informer.checkpoint.paths import locate
from informer.config.commands import ServeConfig
from informer.config.compose import run_command

NEEDED = ("fastapi", "uvicorn")


def main() -> None:
    """The command `informer serve`."""
    run_command("serve", _act)


def _act(settings: ServeConfig) -> None:
    locate(settings.checkpoint)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(f"serve: {' and '.join(missing)} not installed; pip install {' '.join(missing)}")
    from informer.service.serve import serve  # imports torch and fastapi; wrong paths are refused earlier

    serve(settings, main_console())
