"""`python -m informer.predict checkpoint=runs/latest input=FILE`: the command `informer predict`."""

from informer.commands.cli import main

if __name__ == "__main__":
    main("predict")
