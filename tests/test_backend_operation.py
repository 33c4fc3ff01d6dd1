"""An operation of the backend that lands just when a glance at it has ended."""

from __future__ import annotations

from datetime import timedelta

import pytest

from weft.runtime.backend import BackendOperation
from weft.runtime.deadline import Term


class LandsAfterAGlance:
    """Work whose first wait times out, and that is over before anybody can ask."""

    def __init__(self, failure: str | None) -> None:
        self._failure, self._glances = failure, 0

    def wait(self, _: timedelta | None = None) -> None:
        self._glances += 1
        if self._glances == 1:
            raise RuntimeError("Operation timed out!")
        if self._failure:
            raise RuntimeError(self._failure)

    def is_completed(self) -> bool:
        return self._glances > 0


@pytest.mark.parametrize("failure", [None, "Connection closed by peer"])
def test_a_glance_that_ends_too_early_is_not_taken_for_the_end_of_the_work(failure: str | None) -> None:
    ends: list[Exception | None] = []

    def ended(error: Exception | None) -> bool:
        ends.append(error)
        return error is None

    operation = BackendOperation(Term(patience=1.0, limit=5.0), ended)
    operation.run_here(lambda: LandsAfterAGlance(failure))
    assert [error and str(error) for error in ends] == [failure]
    assert operation.succeeded is (failure is None)
