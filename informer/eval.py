"""`python -m informer.eval checkpoint=runs/latest`: score a trained model and two baselines on its test part.

Writes metrics.json, metrics.csv and error_by_step.png; with plots=attention also attention_<place>.png, the attention
of
every head and layer on a few test windows, which TensorBoard shows from the same folder.
"""

from informer import start

if __name__ == "__main__":  # before the imports that take time
    start.begin()

from informer.checkpoint.paths import unfinished
from informer.config.commands import EvalConfig
from informer.config.compose import run_command
from informer.console import main_console, say


def main() -> None:
    """Console script `informer-eval`."""
    run_command("eval", _act)


def _act(settings: EvalConfig) -> None:
    if note := unfinished(settings.checkpoint):
        say(main_console(), note)
    from informer.inference.rescore import evaluate  # imports torch; wrong paths are refused earlier

    evaluate(settings, main_console())


if __name__ == "__main__":
    start.run(main)
