# SPDX-License-Identifier: Apache-2.0
"""Options of connections: the path behind `/proxy` and the ports to forward."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubeloop.api.errors import BadRequest
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.handlers.subresources.connect.connect_options import connect_options, proxy_path
from kubeloop.apiserver.request.context import ANONYMOUS, RequestContext
from kubeloop.apiserver.request.negotiation import PLAIN
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import Router
from kubeloop.http import Request

ROUTER = Router(RESOURCES)


def asked(path: str, query: str = "") -> RequestContext:
    target = ROUTER.find("GET", path)
    now = datetime(2026, 5, 10, 12, tzinfo=UTC)
    return RequestContext(Request("GET", path, query), target, Query(query), ANONYMOUS, PLAIN, now)


@pytest.mark.parametrize("rest", ["", "/", "/a", "/a/", "/proxy/", "/x/proxy/y", "/%2Fa//b"])
@pytest.mark.parametrize(
    "base",
    [
        "/api/v1/namespaces/shop/pods/p/proxy",
        "/api/v1/namespaces/proxy/pods/proxy/proxy",
        "/api/v1/namespaces/proxy-1/services/proxy-2/proxy",
        "/api/v1/nodes/proxy/proxy",
        "/api/v1/nodes/n1/proxy",
    ],
)
def test_the_path_begins_behind_the_subresource(base: str, rest: str) -> None:
    assert proxy_path(asked(base + rest)) == rest
    assert connect_options(asked(base + rest)).path == rest


def test_ports_are_repeated_or_separated_by_commas() -> None:
    path = "/api/v1/namespaces/shop/pods/p/portforward"
    assert connect_options(asked(path, "ports=80&ports=81,0082")).ports == (80, 81, 82)


@pytest.mark.parametrize(
    ("text", "why"),
    [("\u00b2", "invalid syntax"), ("x", "invalid syntax"), ("-1", "invalid syntax"), ("65536", "value out of range")],
)
def test_what_is_no_port_is_a_bad_request(text: str, why: str) -> None:
    with pytest.raises(BadRequest) as refused:
        connect_options(asked("/api/v1/namespaces/shop/pods/p/portforward", f"ports={text}"))
    assert refused.value.message == f'cannot convert to []int32: strconv.ParseUint: parsing "{text}": {why}'
