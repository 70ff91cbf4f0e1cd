"""`python -m informer COMMAND ...`: the console script `informer`."""

from informer.cli import main

if __name__ == "__main__":
    main()
