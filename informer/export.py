"""`python -m informer.export checkpoint=runs/latest format=onnx`: export a trained model.

Writes the model, and a description of its inputs, columns, lengths and scaler (.json).
"""

from informer import start

if __name__ == "__main__":  # before the imports that take time
    start.begin()

from informer.checkpoint.paths import locate
from informer.config.commands import ExportConfig
from informer.config.compose import run_command
from informer.console import main_console


def main() -> None:
    """The command `informer export`."""
    run_command("export", _act)


def _act(settings: ExportConfig) -> None:
    locate(settings.checkpoint)
    from informer.inference.exporting import export  # imports torch; wrong paths are refused earlier

    export(settings, main_console())


if __name__ == "__main__":
    start.run(main)
