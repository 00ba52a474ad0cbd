# SPDX-License-Identifier: Apache-2.0
"""Settings of all tests: Hypothesis profiles, and skips that count as failures."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.skips import is_allowed

# By default every run generates the same examples. `make explore` loads the other profile and searches with new seeds.
# No deadline: the duration of an example depends on the load of the machine; bench/ measures speed.
settings.register_profile(
    "repeatable",
    parent=settings(),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("explore", parent=settings.get_profile("repeatable"), derandomize=False)
settings.load_profile("repeatable")

# Hypothesis also draws constants that it finds in the modules imported so far, which differ with the order of tests.
providers.is_local_module_file = lambda path: False


def pytest_collection_finish() -> None:
    """Exempt modules and collected tests from garbage collection, which takes a tenth of the processor time else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(autouse=True, scope="session")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the clusters of the tests apart from the user's: programs that tests start inherit the variable."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("state")
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Turn a skip for a reason that tests/skips.py does not allow into a failure."""
    report: pytest.TestReport = yield
    _forbid_unlisted_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """Do the same for a module that skips itself while it is imported."""
    report: pytest.CollectReport = yield
    _forbid_unlisted_skip(report)
    return report


def _forbid_unlisted_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not is_allowed(reason.removeprefix("Skipped: ")):
        report.outcome = "failed"
        report.longrepr = f"skipped, but tests/skips.py does not allow it here: {reason}"
