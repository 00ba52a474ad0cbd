# SPDX-License-Identifier: Apache-2.0
"""Tests of the bootstrap objects of a new server."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from kubeloop.api.codec import to_plain
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.bootstrap import (
    BootstrapOptions,
    bootstrap_objects,
    essential_objects,
    remaining_objects,
)
from kubeloop.apiserver.bootstrap.policy_notation import parse_rule

NOON = datetime(2026, 5, 10, 12, tzinfo=UTC)


def _made(**options):
    """All objects as plain values, by plural, namespace and name."""
    found = {}
    for resource, obj in bootstrap_objects(BootstrapOptions(now=NOON, **options)):
        assert isinstance(obj, resource.type)
        apply_defaults(obj)
        found[resource.plural, obj.metadata.namespace, obj.metadata.name] = to_plain(obj)
    return found


@pytest.fixture(scope="module")
def made():
    return _made(advertise_address="192.168.1.7", secure_port=7443, client_ca_pem="PEM")


def test_counts_of_bootstrap_objects_match_upstream(made):
    assert Counter(plural for plural, _, _ in made) == {
        "namespaces": 4,
        "priorityclasses": 2,
        "servicecidrs": 1,
        "ipaddresses": 1,
        "services": 1,
        "endpoints": 1,
        "endpointslices": 1,
        "configmaps": 2,
        "apiservices": 22,
        "prioritylevelconfigurations": 8,
        "flowschemas": 11,
        "clusterroles": 73,
        "clusterrolebindings": 54,
        "roles": 7,
        "rolebindings": 7,
    }


def test_the_servers_own_user_for_kubelets_may_call_them_and_nothing_else(made):
    more = _made(advertise_address="192.168.1.7", secure_port=7443, client_ca_pem="PEM", kubelet_client_user="me")
    ((key, binding),) = ((key, obj) for key, obj in more.items() if key not in made)
    assert key == ("clusterrolebindings", "", "kubeloop:me")
    assert binding["roleRef"]["name"] == "system:kubelet-api-admin"
    assert [(one["kind"], one["name"]) for one in binding["subjects"]] == [("User", "me")]


def test_creation_is_deterministic(made):
    assert _made(advertise_address="192.168.1.7", secure_port=7443, client_ca_pem="PEM") == made


def test_namespaces_precede_their_objects():
    seen = set()
    for resource, obj in bootstrap_objects(BootstrapOptions(now=NOON, advertise_address="192.168.1.7")):
        if resource.plural == "namespaces":
            seen.add(obj.metadata.name)
        elif resource.namespaced:
            assert obj.metadata.namespace in seen


def test_rbac_objects_are_not_required_for_readiness():
    options = BootstrapOptions(now=NOON)
    essential = {resource.plural for resource, _ in essential_objects(options)}
    remaining = {resource.plural for resource, _ in remaining_objects(options)}
    assert not essential & remaining
    assert {"namespaces", "services", "priorityclasses"} <= essential


def test_kubernetes_service_has_the_first_address_of_the_range(made):
    spec = made["services", "default", "kubernetes"]["spec"]
    assert spec["clusterIPs"] == ["10.0.0.1"]
    assert spec["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 7443}]
    assert made["servicecidrs", "", "kubernetes"]["spec"] == {"cidrs": ["10.0.0.0/24"]}
    owner = made["ipaddresses", "", "10.0.0.1"]["spec"]["parentRef"]
    assert owner == {"resource": "services", "namespace": "default", "name": "kubernetes"}


def test_ipv6_range_works():
    made = _made(service_cidrs=("fd00:10::/112",))
    spec = made["services", "default", "kubernetes"]["spec"]
    assert (spec["clusterIP"], spec["ipFamilies"]) == ("fd00:10::1", ["IPv6"])
    labels = made["ipaddresses", "", "fd00:10::1"]["metadata"]["labels"]
    assert labels["ipaddress.kubernetes.io/ip-family"] == "IPv6"


def test_service_endpoints_have_the_advertised_address(made):
    port = {"name": "https", "port": 7443, "protocol": "TCP"}
    old = made["endpoints", "default", "kubernetes"]
    assert old["subsets"] == [{"addresses": [{"ip": "192.168.1.7"}], "ports": [port]}]
    assert old["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    new = made["endpointslices", "default", "kubernetes"]
    assert new["endpoints"] == [{"addresses": ["192.168.1.7"], "conditions": {"ready": True}}]
    assert (new["addressType"], new["ports"]) == ("IPv4", [port])


@pytest.mark.parametrize("address", ["", "0.0.0.0", "::"])
def test_an_address_that_nobody_can_reach_gets_no_endpoints(address):
    plurals = {plural for plural, _, _ in _made(advertise_address=address)}
    assert not plurals & {"endpoints", "endpointslices"}


def test_client_ca_is_published_if_set(made):
    assert made["configmaps", "kube-system", "extension-apiserver-authentication"]["data"] == {"client-ca-file": "PEM"}
    assert ("configmaps", "kube-system", "extension-apiserver-authentication") not in _made()


def test_every_group_version_has_an_available_api_service(made):
    served = {(r.group, r.version) for r in RESOURCES if r.group != "apiregistration.k8s.io"}
    services = [obj for (plural, _, _), obj in made.items() if plural == "apiservices"]
    assert {(obj["spec"].get("group", ""), obj["spec"]["version"]) for obj in services} == served
    for service in services:
        (condition,) = service["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")


def test_every_flow_schema_has_an_existing_level(made):
    levels = {name for plural, _, name in made if plural == "prioritylevelconfigurations"}
    for (plural, _, _), obj in made.items():
        if plural == "flowschemas":
            assert obj["spec"]["priorityLevelConfiguration"]["name"] in levels


def test_every_binding_has_an_existing_role(made):
    for (plural, namespace, _), obj in made.items():
        if plural.endswith("rolebindings"):
            target = "roles" if obj["roleRef"]["kind"] == "Role" else "clusterroles"
            assert (target, namespace, obj["roleRef"]["name"]) in made


def test_the_masters_may_do_everything(made):
    assert made["clusterroles", "", "cluster-admin"]["rules"] == [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    assert made["clusterrolebindings", "", "cluster-admin"]["subjects"] == [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:masters"}
    ]


@pytest.mark.parametrize(("part", "whole"), [("system:aggregate-to-view", "view"), ("view", "edit"), ("edit", "admin")])
def test_user_facing_roles_are_aggregated(made, part, whole):
    (selector,) = made["clusterroles", "", whole]["aggregationRule"]["clusterRoleSelectors"]
    labels = made["clusterroles", "", part]["metadata"]["labels"]
    assert selector["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("get list: pods nodes", {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "nodes"]}),
        (
            "update: deployments/status @apps,extensions",
            {"verbs": ["update"], "apiGroups": ["apps", "extensions"], "resources": ["deployments/status"]},
        ),
        (
            "get: configmaps =a,b",
            {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "b"]},
        ),
        (
            "create: events @core,events.k8s.io",
            {"verbs": ["create"], "apiGroups": ["", "events.k8s.io"], "resources": ["events"]},
        ),
        ("get: url /healthz /version/", {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/version/"]}),
    ],
)
def test_policy_line_is_parsed_to_a_rule(line, plain):
    assert to_plain(parse_rule(line)) == plain
