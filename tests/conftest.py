"""What every test shares."""

import gc
import signal

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes decides nothing: other work of the machine is in it, too.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: begins early, lest one worker be left alone with it")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """What thousands of tests consist of stays: no look of the collector has to go through it.

    That of a process that a test forks would copy it all.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _child_signals() -> None:
    # Whoever runs the tests may have left SIGCHLD blocked, as timeout(1) of some coreutils does;
    # what a test starts would inherit that.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
