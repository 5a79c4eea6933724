"""What every test shares."""

import signal

import pytest


@pytest.fixture(autouse=True)
def _child_signals() -> None:
    # Whoever runs the tests may have left SIGCHLD blocked, as timeout(1) of some coreutils does;
    # what a test starts would inherit that.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
