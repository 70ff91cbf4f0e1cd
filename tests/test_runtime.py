"""The environment of the program."""

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_info

from informer.base.runtime import one_blas_thread


def test_blas_computes_with_one_thread_within_the_function_and_as_before_after_it():
    """Red if the libraries of numpy and scipy are not limited, or stay limited."""
    scipy.linalg.cholesky(np.eye(3))
    before = threads()
    assert before
    assert set(one_blas_thread(threads)()) == {1}
    assert threads() == before


def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
