"""Paths that don't show the stored object itself: scale, binding, eviction, tokens and reviews."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kubeloop.api import errors
from kubeloop.apiserver.context import Context
from kubeloop.apiserver.http import Response

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

Endpoint = Callable[[Context, Any], Awaitable[Response]]


async def _not_here(ctx: Context, server: ApiServer) -> Response:
    raise errors.generic(404)


SUBRESOURCES: dict[str, Endpoint] = {}
create_only: dict[str, Endpoint] = {}
