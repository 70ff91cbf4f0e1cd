"""Invalid values in a yaml file are refused before anything is built."""

import pytest

from informer.networks.attention.parameters import MOST, at_least, choice, flag, positive


@pytest.mark.parametrize("value", [1, 2.0, True, "4", None])
def test_at_least_refuses(value):
    with pytest.raises(ValueError, match=f"n: expected a whole number of at least 2, found {value!r}"):
        at_least("n", value, 2)


def test_what_torch_cannot_take_is_refused():
    with pytest.raises(ValueError, match=f"n: expected at most {MOST}, found {10**20}"):
        at_least("n", 10**20, 2)


@pytest.mark.parametrize("value", [0.5, float("inf"), float("nan"), True, "3", None])
def test_positive_refuses(value):
    with pytest.raises(ValueError, match=f"x: expected a finite number above 0.5, found {value!r}"):
        positive("x", value, minimum=0.5)


@pytest.mark.parametrize("value", ["c", 1, None])
def test_choice_refuses(value):
    with pytest.raises(ValueError, match=f"kind: expected one of a, b, found {value!r}"):
        choice("kind", value, ("a", "b"))


@pytest.mark.parametrize("value", [1, "true", None])
def test_flag_refuses(value):
    with pytest.raises(ValueError, match=f"on: expected true or false, found {value!r}"):
        flag("on", value)


def test_good_values_pass_through():
    assert (at_least("n", 2, 2), choice("kind", "b", ("a", "b")), flag("on", False)) == (2, "b", False)
    assert positive("x", 3) == 3.0
