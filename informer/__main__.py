"""`python -m informer COMMAND ...`: the console script `informer`."""

from informer.commands.cli import main

if __name__ == "__main__":
    main()
