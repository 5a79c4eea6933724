"""What every test shares."""

import signal

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes decides nothing: other work of the machine is in it, too.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _child_signals() -> None:
    # Whoever runs the tests may have left SIGCHLD blocked, as timeout(1) of some coreutils does;
    # what a test starts would inherit that.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
