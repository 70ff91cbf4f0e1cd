"""`python -m informer.eval checkpoint=runs/latest`: the command `informer eval`."""

from informer.commands.cli import main

if __name__ == "__main__":
    main("eval")
