"""Servers that decide who may do what."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.apiserver.secured import SecuredApi, secured_api


@pytest.fixture
def secured() -> Iterator[SecuredApi]:
    """With no roles but those that a test makes."""
    with secured_api() as api:
        yield api


@pytest.fixture(scope="module")
def bootstrapped() -> Iterator[SecuredApi]:
    """With upstream's default roles; for tests that change nothing."""
    with secured_api() as api:
        api.bootstrap()
        yield api
