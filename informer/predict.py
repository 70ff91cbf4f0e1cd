"""`python -m informer.predict checkpoint=runs/latest input=FILE`: forecast files, see `informer.commands.predict`."""

from informer.base import start

if __name__ == "__main__":
    start.begin()
    start.run_module("predict")
