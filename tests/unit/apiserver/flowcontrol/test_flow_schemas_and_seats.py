# SPDX-License-Identifier: Apache-2.0
"""Tests of flow schemas, seats and queues as plain values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.scalars.wire import Time
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.bootstrap.flow_control import flow_schemas, priority_levels
from kubeloop.apiserver.flowcontrol.config import (
    FlowSchemaConfig,
    PriorityLevelConfig,
    read_levels,
    read_schemas,
    with_mandatory_schemas,
)
from kubeloop.apiserver.flowcontrol.flow_schema_match import compute_flow_distinguisher, deal_hand, schema_for
from kubeloop.apiserver.flowcontrol.seat_allocation import SeatBounds, SeatDemand, allocate_seats, bounds_of
from kubeloop.apiserver.request.context import User
from kubeloop.store import Record

NOW = Time("2026-01-01T00:00:00Z")
BOOTSTRAP = read_schemas(Record(one.metadata.name, codec.encode(one), 1, 1) for one in flow_schemas(NOW))
LEVELS = read_levels(Record(one.metadata.name, codec.encode(one), 1, 1) for one in priority_levels())
AUTHENTICATED = "system:authenticated"


def user(name: str, *groups: str) -> User:
    return User(name, (*groups, AUTHENTICATED))


def asked(who: User, verb: str, resource: str, group: str = "", namespace: str = "") -> AuthorizationAttributes:
    return AuthorizationAttributes(who, verb, group, "v1", resource, "", namespace)


ACCOUNT = user("system:serviceaccount:kube-system:deployment-controller", "system:serviceaccounts")
OTHER_ACCOUNT = user("system:serviceaccount:apps:robot", "system:serviceaccounts")
LEASES = ("leases", "coordination.k8s.io", "kube-system")


@pytest.mark.parametrize(
    ("request_", "schema"),
    [
        (asked(user("root", "system:masters"), "delete", "pods"), "exempt"),
        (
            AuthorizationAttributes(User("system:anonymous", ("system:unauthenticated",)), "get", path="/healthz"),
            "probes",
        ),
        (AuthorizationAttributes(user("x"), "get", path="/healthz/etcd"), "global-default"),
        (asked(user("system:kube-scheduler"), "update", *LEASES), "system-leader-election"),
        (asked(user("system:kube-scheduler"), "list", *LEASES), "kube-scheduler"),
        (asked(user("system:node:a", "system:nodes"), "update", "nodes"), "system-node-high"),
        (asked(user("system:node:a", "system:nodes"), "get", "secrets", namespace="x"), "system-nodes"),
        (asked(user("system:kube-controller-manager"), "create", "pods", namespace="x"), "kube-controller-manager"),
        (asked(ACCOUNT, "create", "pods", namespace="x"), "kube-system-service-accounts"),
        (asked(OTHER_ACCOUNT, "create", "pods", namespace="x"), "service-accounts"),
        (asked(user("alice"), "create", "pods", namespace="x"), "global-default"),
    ],
)
def test_requests_match_upstreams_schemas(request_: AuthorizationAttributes, schema: str) -> None:
    found = schema_for(request_, with_mandatory_schemas(BOOTSTRAP, LEVELS))
    assert found is not None
    assert found.metadata.name == schema


def schema(name: str = "s", precedence: int = 5, **rule: Any) -> FlowSchemaConfig:
    subjects = [{"kind": "User", "user": {"name": "*"}}]
    full = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], **rule}
    rules = [{"subjects": subjects, "resourceRules": [full]}]
    spec = {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": "exempt"}, "rules": rules}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, FlowSchemaConfig)


@pytest.mark.parametrize(
    ("rule", "resource", "namespace", "fits"),
    [
        ({}, "pods", "a", True),
        ({}, "nodes", "", False),
        ({"clusterScope": True}, "nodes", "", True),
        ({"namespaces": ["b"]}, "pods", "a", False),
        ({"resources": ["pods"]}, "pods/log", "a", False),
        ({"resources": ["pods/log"]}, "pods/log", "a", True),
        ({"apiGroups": ["apps"]}, "pods", "a", False),
        ({"verbs": ["list"]}, "pods", "a", False),
    ],
)
def test_rule_matches_only_its_fields(rule: Any, resource: str, namespace: str, fits: bool) -> None:
    plural, _, subresource = resource.partition("/")
    request = AuthorizationAttributes(user("alice"), "get", "", "v1", plural, subresource, namespace)
    assert (schema_for(request, [schema(**rule)]) is not None) is fits


def test_schemas_are_sorted_by_precedence_then_name() -> None:
    records = [codec.encode(one) for one in (schema("b", 5), schema("a", 5), schema("z", 1))]
    found = read_schemas(Record("", value, 1, 1) for value in records)
    assert [one.metadata.name for one in found] == ["z", "a", "b"]


def test_every_request_has_a_schema() -> None:
    dangling = msgspec.convert({"metadata": {"name": "x"}, "spec": {}}, FlowSchemaConfig)
    names = [one.metadata.name for one in with_mandatory_schemas([dangling], read_levels([]))]
    assert names == ["exempt", "catch-all"]


def test_flows_are_distinguished_by_user_or_namespace() -> None:
    by_name = {one.metadata.name: one for one in BOOTSTRAP}
    request = asked(user("alice"), "get", "pods", namespace="home")
    assert compute_flow_distinguisher(request, by_name["global-default"]) == "alice"
    assert compute_flow_distinguisher(request, by_name["kube-scheduler"]) == "home"
    assert compute_flow_distinguisher(request, by_name["exempt"]) == ""


@settings(max_examples=100)
@given(name=st.text(), queues=st.integers(1, 128), size=st.integers(1, 10))
def test_shuffle_sharding_is_deterministic_and_distinct(name: str, queues: int, size: int) -> None:
    hand = deal_hand("schema", name, queues, size)
    assert len(set(hand)) == len(hand) == min(size, queues)
    assert all(0 <= one < queues for one in hand)
    assert hand == deal_hand("schema", name, queues, size)


def test_seats_are_assigned_by_shares_like_upstream() -> None:
    bounds = bounds_of(LEVELS, 600)
    assert bounds["workload-low"] == SeatBounds(245, 245 - round(245 * 0.9), 845)
    assert bounds["workload-high"].nominal == 98
    assert bounds["catch-all"] == SeatBounds(13, 13, 613)
    assert bounds["exempt"].nominal == 0


def test_borrowing_may_be_limited() -> None:
    spec = {"type": "Limited", "limited": {"nominalConcurrencyShares": 1, "borrowingLimitPercent": 50}}
    level = msgspec.convert({"metadata": {"name": "x"}, "spec": spec}, PriorityLevelConfig)
    assert bounds_of({"x": level}, 100)["x"] == SeatBounds(100, 100, 150)


@settings(max_examples=100, deadline=None)
@given(needs=st.lists(st.integers(0, 900), min_size=3, max_size=3))
def test_seats_follow_demand_within_bounds(needs: list[int]) -> None:
    bounds = {"a": SeatBounds(50, 5, 650), "b": SeatBounds(250, 25, 850), "c": SeatBounds(300, 300, 320)}
    given_needs = {name: SeatDemand(need, float(need)) for name, need in zip(bounds, needs, strict=True)}
    limits = allocate_seats(bounds, given_needs, 600).limits
    for name, (nominal, lower, upper) in bounds.items():
        assert max(1, lower) <= limits[name] <= upper
        assert limits[name] >= min(nominal, given_needs[name].peak)
    assert sum(limits.values()) <= 600 + len(bounds)


def test_idle_level_lends_and_reclaims_seats() -> None:
    bounds = {"idle": SeatBounds(300, 30, 900), "busy": SeatBounds(300, 300, 900)}
    lent = allocate_seats(bounds, {"idle": SeatDemand(0, 0.0), "busy": SeatDemand(900, 900.0)}, 600).limits
    assert (lent["idle"], lent["busy"]) == (30, 570)
    back = allocate_seats(bounds, {"idle": SeatDemand(300, 300.0), "busy": SeatDemand(900, 900.0)}, 600).limits
    assert back["idle"] >= 300
