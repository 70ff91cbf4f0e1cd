"""The one exception that means "the user can mend this": entry points print it as one line and exit with status 2."""


class InputError(ValueError):
    """A user's mistake, told in one line: what was expected, what was found and where, what to do.

    A ValueError, so that callers of the Python interface may catch it as such.
    """


def one_of(what: str, found: object, allowed: list[str]) -> InputError:
    """The error for a name that is not among `allowed`."""
    return InputError(f"unknown {what} {found!r}: expected one of {', '.join(allowed)}")
