"""What holds for all tests."""

from __future__ import annotations

import signal

import pytest

# A shell has jobs in the background ignore interruptions, and so would everything that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

STARTERS = {"subprocess", "check_ranks", "check_all_end", "on_every_rank", "communicators"}
"""Names in modules whose tests start processes or ranks as threads."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start ranks come one after the other, beside all others: two such at once would only be slower."""
    for item in items:
        if isinstance(item, pytest.Function) and STARTERS & set(vars(item.module)):
            item.add_marker(pytest.mark.xdist_group("ranks"))
