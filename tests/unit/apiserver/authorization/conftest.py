# SPDX-License-Identifier: Apache-2.0
"""Servers with authorization."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.apiserver.secured_api import SecuredApi, secured_api


@pytest.fixture
def secured() -> Iterator[SecuredApi]:
    """Return a server without roles."""
    with secured_api() as api:
        yield api


@pytest.fixture(scope="module")
def bootstrapped() -> Iterator[SecuredApi]:
    """Return a server with upstream's default roles; for read-only tests."""
    with secured_api() as api:
        api.bootstrap()
        yield api
