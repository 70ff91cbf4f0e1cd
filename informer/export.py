"""`python -m informer.export checkpoint=runs/latest format=onnx`: a trained model as others read it.

Writes the model and, beside it, a description of its inputs, columns, lengths and scaler (.json).
"""

import json
from pathlib import Path

from rich.console import Console

from informer import checkpoint, cli
from informer.config import ExportConfig
from informer.errors import InputError
from informer.files import write_atomic
from informer.inference.export import ExportFormat, description, exported

SUFFIXES = {ExportFormat.safetensors: ".safetensors", ExportFormat.onnx: ".onnx", ExportFormat.torch_export: ".pt2"}


def main() -> None:
    """Console script `informer-export`."""
    cli.run("export", lambda settings: export(settings, Console()))


def export(settings: ExportConfig, console: Console) -> Path:
    """Write one checkpoint in another format; returns the path of the model.

    Raises:
        InputError: no readable checkpoint, or it does not convert; nothing has been written then.
    """
    output = Path(settings.output) if settings.output else None
    if output is not None and output.suffix == ".json":
        raise InputError(f"output={output}: expected another ending than that of the description beside it; choose one")
    source = checkpoint.locate(Path(settings.checkpoint))
    saved = checkpoint.load(source)
    content, off = exported(saved, settings.format)
    output = output or source.with_suffix(SUFFIXES[settings.format])
    described = json.dumps(description(saved), indent=2, allow_nan=False) + "\n"
    write_atomic(output, content)
    write_atomic(output.with_suffix(".json"), described)
    cli.say(console, f"model:       {output} (largest difference from the network's own numbers: {off:.1e})")
    cli.say(console, f"description: {output.with_suffix('.json')}")
    return output


if __name__ == "__main__":
    main()
