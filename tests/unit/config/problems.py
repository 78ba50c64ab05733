"""Returns what the error about a configuration says."""

import warnings
from typing import Any

import pytest

from thalweg.config import resolve
from thalweg.errors import KafkaConfigurationError


def problems(client: Any, **given: Any) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KafkaConfigurationError) as caught:
            resolve(client, given)
    assert all(each in str(caught.value) for each in caught.value.problems)
    return list(caught.value.problems)


def one_problem(client: Any, **given: Any) -> str:
    found = problems(client, **given)
    assert len(found) == 1, found
    return found[0]
