# SPDX-License-Identifier: Apache-2.0
"""Marks every test of this folder, which needs the extra `docs`; planes are those of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.plane import Plane

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.docs)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    """A plane with nodes and a storage class, which runs what is installed into it."""
    with ExitStack() as cleanup:
        made = Plane(tmp_path / "plane", "--ephemeral", "--nodes", "2", "--default-storage-class")
        made.start()
        cleanup.callback(made.close)
        yield made
