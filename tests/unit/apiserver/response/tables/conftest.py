# SPDX-License-Identifier: Apache-2.0
"""A moment to print at, and a short way from a plain object to what its row shows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kubeloop.api.codec import from_plain
from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.apiserver.response.tables import cells_of, columns_of

NOW = datetime(2026, 5, 10, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def resource() -> Callable[[str], Resource]:
    """Looks a resource up as `deployments.apps/v1` or `pods.v1`."""
    known = (*RESOURCES, *OPTIONAL_RESOURCES)
    return lambda name: next(r for r in known if f"{r.plural}.{r.group_version}" == name)


@pytest.fixture
def build(resource: Callable[[str], Resource]) -> Callable[..., Any]:
    """An object named `x`, five minutes old, with the given fields."""

    def built(name: str, metadata: dict[str, Any] | None = None, **fields: Any) -> Any:
        base = {"name": "x", "creationTimestamp": "2026-05-10T11:55:00Z"}
        return from_plain({"metadata": {**base, **(metadata or {})}, **fields}, resource(name).type)

    return built


@pytest.fixture
def show(resource: Callable[[str], Resource], build: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """The object's row by column name."""

    def shown(name: str, metadata: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        columns = [column.name for column in columns_of(resource(name))]
        return dict(zip(columns, cells_of(resource(name), build(name, metadata, **fields), NOW), strict=False))

    return shown
