"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell has jobs in the background ignore interruptions, and so would everything that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
