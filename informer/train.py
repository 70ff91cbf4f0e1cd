"""`python -m informer.train dataset=ETTh1 attn=prob`: fit a model, see `informer.commands.train`."""

from informer.base import start

if __name__ == "__main__":
    start.begin()
    start.run_module("train")
