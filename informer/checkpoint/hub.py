"""A model in the folder layout of the Hugging Face Hub.

  model.safetensors   the model file, as `format` writes it
  config.json         what it is: columns, lengths, settings of the network, and the digest of the model file
  README.md           the model card, with the metadata by which the Hub lists it

Whoever downloads a model learns what its file says: names of columns, series and categories, and all settings. Of paths
only the last name is kept.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from informer.base.errors import FileError, reason_of
from informer.base.files import write_atomic
from informer.checkpoint.format import Checkpoint, load, save
from informer.config.conversion import read_json

MODEL, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
LIBRARY = "informer-forecasting"


def save_pretrained(folder: Path, checkpoint: Checkpoint, scores: str) -> None:
    """Write the three files; `scores` is a table for the card, empty if there are none."""
    checkpoint = without_places(checkpoint)
    digest = save(folder / MODEL, checkpoint)
    sizes, model = checkpoint.settings.sizes, checkpoint.config["model"]
    facts = {
        "library_name": LIBRARY, "model_type": model["family"], "sha256": digest,
        "targets": checkpoint.targets, "inputs": checkpoint.inputs, "future_covariates": checkpoint.future_covariates,
        "frequency": checkpoint.frequency, "seq_len": sizes.seq_len, "label_len": sizes.label_len,
        "pred_len": sizes.pred_len, "quantiles": checkpoint.settings.loss.quantiles,
        "trained_until": checkpoint.fitted_until, "model": model,
    }  # fmt: skip
    write_atomic(folder / CONFIG, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    write_atomic(folder / CARD, card(facts, scores))


def without_places(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with names of files and folders in place of paths."""

    def named(node: Mapping[str, Any], *keys: str) -> dict[str, Any]:
        return {key: Path(value).name if key in keys and value else value for key, value in node.items()}

    config = named(checkpoint.config, "data_dir", "run_dir", "init_from")
    config["dataset"] = named(config["dataset"], "path")
    places = {key: Path(getattr(checkpoint.data, key)).name for key in ("path", "absolute")}
    data = checkpoint.data.model_copy(update=places)
    return checkpoint.model_copy(update={"data": data, "config": config})


def card(facts: dict[str, Any], scores: str) -> str:
    """The model card."""
    needed = f", and values of {', '.join(facts['future_covariates'])} ahead" if facts["future_covariates"] else ""
    table = f"\n## Scores on its test part\n\n```text\n{scores}\n```\n" if scores else ""
    return f"""---
library_name: {LIBRARY}
pipeline_tag: time-series-forecasting
tags: [time-series, forecasting, {facts["model_type"]}]
---

# Forecasts of {", ".join(facts["targets"])}

{facts["pred_len"]} rows ahead, a row each {facts["frequency"]}, from {facts["seq_len"]} rows of {", ".join(facts["inputs"])}{needed}.
Fitted on rows until {facts["trained_until"] or "a time that is not known"}. Not for other columns, nor for another step of time.

```python
from informer import Forecaster  # pip install {LIBRARY}

ahead = Forecaster.from_pretrained("this repository or a folder with its files").predict(table)
```
{table}"""  # noqa: E501 (lines of the card)


def model_file(source: str | Path) -> Path:
    """The model file of a folder, or of a repository of the Hub, which huggingface_hub keeps in its cache.

    Raises:
        InputError: neither, huggingface_hub is not installed, or the model is not the one that config.json describes.
    """
    folder = Path(source)
    if not folder.is_dir():
        try:
            from huggingface_hub import hf_hub_download

            folder = [Path(hf_hub_download(str(source), name)).parent for name in (CONFIG, MODEL)][-1]
        except ImportError as error:
            cure = "for a repository of the Hub pip install huggingface_hub"
            raise FileError(f"from_pretrained: {source} is no folder here; {cure}") from error
        except (OSError, ValueError) as error:
            expected = f"expected a folder or a repository of the Hub such as name/model, found {source}"
            raise FileError(f"from_pretrained: {expected}: {reason_of(error)}") from error
    path, described = folder / MODEL, folder / CONFIG
    if not described.exists():
        raise FileError(f"from_pretrained: {folder} has no {CONFIG}; Forecaster.load reads runs and model files")
    if load(path).sha256 != read_json(described).get("sha256"):
        raise FileError(f"from_pretrained: {path} is not the model that {CONFIG} describes; download both again")
    return path
