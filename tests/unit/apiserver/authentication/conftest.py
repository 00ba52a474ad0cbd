# SPDX-License-Identifier: Apache-2.0
"""A server with every way in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.apiserver.secured_api import SecuredApi, secured_api


@pytest.fixture
def secured() -> Iterator[SecuredApi]:
    with secured_api() as api:
        yield api
