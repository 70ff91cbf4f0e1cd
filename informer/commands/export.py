"""`informer export checkpoint=runs/latest format=onnx`: export a trained model.

Writes the model, and a description of its inputs, columns, lengths and scaler (the name with .json appended).
"""

from informer.base.console import main_console
from informer.checkpoint.paths import locate
from informer.config.commands import ExportConfig
from informer.config.compose import run_command


def main() -> None:
    """The command `informer export`."""
    run_command("export", _act)


def _act(settings: ExportConfig) -> None:
    locate(settings.checkpoint)
    from informer.inference.export import export  # imports torch; wrong paths are refused earlier

    export(settings, main_console())
