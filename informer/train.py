"""`python -m informer.train dataset=ETTh1 attn=prob`: the command `informer train`."""

from informer.commands.cli import main

if __name__ == "__main__":
    main("train")
