"""`python -m informer.eval checkpoint=runs/latest`: score a trained model again, see `informer.commands.eval`."""

from informer.base import start

if __name__ == "__main__":
    start.begin()
    start.run_module("eval")
