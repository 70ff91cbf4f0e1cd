"""Roles of columns against a table of what each way of saying them means."""

import pytest

from informer.base.errors import InputError
from informer.config.data import FeatureMode
from informer.data.columns import Roles

M, S, MS = FeatureMode
FOUND = ["a", "b", "c", "d"]

# what is said, then inputs, targets, future covariates
CASES = [
    (Roles(), "abcd", "abcd", ""),
    (Roles(target="b"), "abcd", "abcd", ""),
    (Roles(features=S), "d", "d", ""),
    (Roles(features=S, target="b"), "b", "b", ""),
    (Roles(features=MS, target="b"), "abcd", "b", ""),
    (Roles(past_covariates=["d"]), "abcd", "abc", ""),
    (Roles(past_covariates=["a"], future_covariates=["c"]), "abcd", "bd", "c"),
    (Roles(features=S, future_covariates=["d", "a"]), "acd", "c", "ad"),
    (Roles(features=MS, past_covariates=["d"]), "abcd", "c", ""),
    (Roles(targets=["c", "a"]), "ac", "ac", ""),
    (Roles(features=S, target="b", targets=["a"], past_covariates=["d"], future_covariates=["b"]), "abd", "a", "b"),
    (Roles(target="a", past_covariates=["a"]), "abcd", "bcd", ""),
]


@pytest.mark.parametrize(("roles", "inputs", "targets", "future"), CASES)
def test_roles(roles: Roles, inputs: str, targets: str, future: str) -> None:
    chosen = roles.choose(FOUND, name="file")
    assert (chosen.inputs, chosen.targets, chosen.future_covariates) == (tuple(inputs), tuple(targets), tuple(future))
    assert [chosen.inputs[i] for i in chosen.positions(chosen.targets)] == list(targets)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (Roles(target="x"), "target=x: file has no such column, its columns are a, b, c, d"),
        (Roles(targets=["a", "x"]), "targets=x: file has no such column"),
        (Roles(past_covariates=["x"]), "past_covariates=x: file has no such column"),
        (Roles(future_covariates=["x"]), "future_covariates=x: file has no such column"),
        (Roles(targets=[]), "targets: expected at least one column"),
        (Roles(targets=["a", "a"]), "column 'a' is given twice in targets"),
        (Roles(targets=["a"], past_covariates=["a"]), "column 'a' is given in targets and in past_covariates"),
        (Roles(features=MS, target="a", future_covariates=["a"]), "'a' is given in target and in future_covariates"),
        (Roles(past_covariates=["a"], future_covariates=["a"]), "'a' is given in past_covariates and in future_cov"),
        (Roles(past_covariates=FOUND), "file: no column left to forecast, all of a, b, c, d are covariates"),
    ],
)
def test_what_cannot_be(roles: Roles, message: str) -> None:
    with pytest.raises(InputError, match=message):
        roles.choose(FOUND, name="file")
