# SPDX-License-Identifier: Apache-2.0
"""Validation tests of network policies, ingresses, ingress classes, addresses and service CIDRs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import altered, create_problems, update_problems

POLICIES = "networkpolicies.networking.k8s.io"
INGRESSES = "ingresses.networking.k8s.io"
CLASSES = "ingressclasses.networking.k8s.io"
ADDRESSES = "ipaddresses.networking.k8s.io"
RANGES = "servicecidrs.networking.k8s.io"

POLICY = {
    "spec": {
        "podSelector": {"matchLabels": {"app": "web"}},
        "ingress": [
            {
                "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
                "ports": [{"port": 80, "endPort": 90, "protocol": "TCP"}],
            }
        ],
    }
}
BLOCK = "spec.ingress.0.from.0.ipBlock"
PORT = "spec.ingress.0.ports.0"


def test_a_full_policy_passes() -> None:
    assert create_problems(POLICIES, POLICY) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (f"{PORT}.protocol", "ICMP", 'ports[0].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", '
         '"SCTP"'),
        (f"{PORT}.endPort", 7, "ports[0].endPort: Invalid value: 7: must be greater than or equal to `port`"),
        (f"{PORT}.port", "http", "ports[0].endPort: Invalid value: 90: may not be specified when `port` is "
         "non-numeric"),
        (f"{PORT}.port", None, "ports[0].endPort: Invalid value: 90: may not be specified when `port` is not "
         "specified"),
        (f"{BLOCK}.cidr", "", "from[0].ipBlock.cidr: Required value"),
        (f"{BLOCK}.cidr", "10.0.0.1/8", 'from[0].ipBlock.cidr: Invalid value: "10.0.0.1/8": must not have bits set '
         'beyond the prefix length'),
        (f"{BLOCK}.except", ["11.0.0.0/16"], 'from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a '
         'strict subset of `cidr`'),
        (f"{BLOCK}.except", ["10.0.0.0/8"], 'from[0].ipBlock.except[0]: Invalid value: "10.0.0.0/8": must be a strict '
         'subset of `cidr`'),
        ("spec.ingress.0.from.0", {}, "from[0]: Required value: must specify a peer"),
        ("spec.ingress.0.from.0.podSelector", {}, "from[0]: Forbidden: may not specify both ipBlock and another peer"),
    ],
)  # fmt: skip
def test_a_policy_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(POLICIES, altered(POLICY, {path: value})) == [f"spec.ingress[0].{problem}"]


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        (["Sideways"], 'spec.policyTypes[0]: Unsupported value: "Sideways": supported values: "Ingress", "Egress"'),
        (
            ["Ingress", "Egress", "Ingress"],
            'spec.policyTypes: Invalid value: ["Ingress","Egress","Ingress"]: may not specify more than two '
            "policyTypes",
        ),
    ],
)
def test_policy_types_are_validated(types: list[str], problem: str) -> None:
    assert create_problems(POLICIES, altered(POLICY, {"spec.policyTypes": types})) == [problem]


def test_update_keeps_legacy_networks() -> None:
    old = altered(POLICY, {f"{BLOCK}.cidr": "010.0.0.0/8"})
    assert update_problems(POLICIES, old, altered(old, {f"{PORT}.endPort": 99})) == []
    assert update_problems(POLICIES, POLICY, old) != []


INGRESS = {
    "spec": {
        "ingressClassName": "nginx",
        "rules": [
            {
                "host": "a.example.com",
                "http": {
                    "paths": [
                        {
                            "path": "/x",
                            "pathType": "Prefix",
                            "backend": {"service": {"name": "web", "port": {"number": 80}}},
                        }
                    ]
                },
            }
        ],
        "tls": [{"hosts": ["*.example.com"], "secretName": "cert"}],
    }
}
HTTP_PATH = "spec.rules.0.http.paths.0"
AT = "spec.rules[0].http.paths[0]"


def test_a_full_ingress_passes() -> None:
    assert create_problems(INGRESSES, INGRESS) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.rules", [], "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"),
        ("spec.rules.0.host", "10.0.0.1", 'spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an '
         'IP address'),
        (f"{HTTP_PATH}.pathType", None, f"{AT}.pathType: Required value: pathType must be specified"),
        (f"{HTTP_PATH}.pathType", "Glob", f'{AT}.pathType: Unsupported value: "Glob": supported values: "Exact", '
         '"ImplementationSpecific", "Prefix"'),
        (f"{HTTP_PATH}.path", "x", f'{AT}.path: Invalid value: "x": must be an absolute path'),
        (f"{HTTP_PATH}.path", "/a/./b", f"{AT}.path: Invalid value: \"/a/./b\": must not contain '/./'"),
        (f"{HTTP_PATH}.path", "/a%2Fb", f"{AT}.path: Invalid value: \"/a%2Fb\": must not contain '%2F'"),
        (f"{HTTP_PATH}.path", "/a/..", f"{AT}.path: Invalid value: \"/a/..\": cannot end with '/..'"),
        (f"{HTTP_PATH}.backend", {}, f'{AT}.backend: Invalid value: "": resource or service backend is required'),
        (f"{HTTP_PATH}.backend.resource", {}, f'{AT}.backend: Invalid value: "": cannot set both resource and service '
         'backends'),
        (f"{HTTP_PATH}.backend.service.name", "", f"{AT}.backend.service.name: Required value"),
        (f"{HTTP_PATH}.backend.service.port", {}, f"{AT}.backend: Required value: port name or number is required"),
        (f"{HTTP_PATH}.backend.service.port.name", "p", f'{AT}.backend: Invalid value: "": cannot set both port name '
         '& port number'),
        ("spec.rules.0.http.paths", [], "spec.rules[0].http.paths: Required value"),
    ],
)  # fmt: skip
def test_an_ingress_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(INGRESSES, altered(INGRESS, {path: value})) == [problem]


def test_a_resource_backend_names_its_kind() -> None:
    manifest = altered(INGRESS, {f"{HTTP_PATH}.backend": {"resource": {"kind": "a/b", "name": ""}}})
    assert create_problems(INGRESSES, manifest) == [
        f"{AT}.backend.resource.kind: Invalid value: \"a/b\": may not contain '/'",
        f"{AT}.backend.resource.name: Required value",
    ]


def test_class_annotation_and_class_are_exclusive() -> None:
    manifest = {**INGRESS, "metadata": {"annotations": {"kubernetes.io/ingress.class": "other"}}}
    problem = (
        'annotations.kubernetes.io/ingress.class: Invalid value: "other": '
        "must match `ingressClassName` when both are specified"
    )
    assert create_problems(INGRESSES, manifest) == [problem]
    assert update_problems(INGRESSES, INGRESS, manifest) == []


def test_update_keeps_an_invalid_secret_name() -> None:
    bad = altered(INGRESS, {"spec.tls.0.secretName": "Bad_Name"})
    assert update_problems(INGRESSES, bad, bad) == []
    assert len(update_problems(INGRESSES, INGRESS, bad)) == 1


@pytest.mark.parametrize(
    ("point", "problem"),
    [
        ({"ip": "1.2.3"}, '.ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'),
        ({"hostname": "1.2.3.4"}, '.hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address'),
    ],
)
def test_ingress_status_addresses_are_validated(point: dict[str, str], problem: str) -> None:
    new = altered(INGRESS, {"status": {"loadBalancer": {"ingress": [point]}}})
    found = update_problems(INGRESSES, INGRESS, new, "status")
    assert found == [f"status.loadBalancer.ingress[0]{problem}"]


CLASS = {
    "spec": {
        "controller": "example.com/controller",
        "parameters": {"kind": "P", "name": "p", "scope": "Namespace", "namespace": "default"},
    }
}


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.parameters.scope", "Moon", 'spec.parameters.scope: Unsupported value: "Moon": supported values: '
         '"Cluster", "Namespace"'),
        ("spec.parameters.scope", "Cluster", "spec.parameters.namespace: Forbidden: `parameters.scope` is set to "
         "'Cluster'"),
        ("spec.parameters.namespace", None, "spec.parameters.namespace: Required value: `parameters.scope` is set to "
         "'Namespace'"),
        ("spec.parameters.kind", "", "spec.parameters.kind: Required value"),
        ("spec.controller", "", "spec.controller: Required value"),
        ("spec.controller", "x", 'spec.controller: Invalid value: "x": must be a domain-prefixed path (such as '
         '"acme.io/foo")'),
        ("spec.controller", "a.io/" + "b" * 250, "spec.controller: Too long: may not be more than 250 bytes"),
    ],
)  # fmt: skip
def test_an_ingress_class_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(CLASSES, altered(CLASS, {path: value})) == [problem]


def test_controller_of_a_class_is_immutable() -> None:
    other = altered(CLASS, {"spec.controller": "example.com/other"})
    problem = 'spec.controller: Invalid value: "example.com/other": field is immutable'
    assert update_problems(CLASSES, CLASS, other) == [problem]


def address(name: str, parent: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"parentRef": parent}}


PARENT = {"resource": "services", "name": "s", "namespace": "n"}


@pytest.mark.parametrize(
    ("name", "parent", "problem"),
    [
        ("10.0.0.01", PARENT, 'metadata.name: Invalid value: "10.0.0.01": must not have leading 0s'),
        ("FD00::1", PARENT, 'metadata.name: Invalid value: "FD00::1": must be in canonical form ("fd00::1")'),
        ("10.0.0.1", None, "spec.parentRef: Required value"),
        ("10.0.0.1", {"name": "s"}, "spec.parentRef.resource: Required value"),
        ("10.0.0.1", {**PARENT, "namespace": "a%"}, "spec.parentRef.namespace: Invalid value: \"a%\": may not contain "
         "'%'"),
    ],
)  # fmt: skip
def test_an_address_is_canonical_and_has_a_parent(name: str, parent: Any, problem: str) -> None:
    assert create_problems(ADDRESSES, address(name, parent)) == [problem]


def test_parent_of_an_address_is_immutable() -> None:
    old, new = address("10.0.0.1", PARENT), address("10.0.0.1", {**PARENT, "name": "t"})
    assert update_problems(ADDRESSES, old, new) == ["spec.parentRef: Invalid value: null: field is immutable"]


@pytest.mark.parametrize(
    ("cidrs", "problem"),
    [
        ([], ": Required value: at least one CIDR required"),
        (["10.0.0.0/8", "fd00::/64", "11.0.0.0/8"], ': Invalid value: '
         '{"CIDRs":["10.0.0.0/8","fd00::/64","11.0.0.0/8"]}: may only hold up to 2 values'),
        (["10.0.0.0/8", "11.0.0.0/8"], ': Invalid value: ["10.0.0.0/8","11.0.0.0/8"]: may specify no more than one IP '
         'for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64'),
        (["10.0.0.1/8"], '[0]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length'),
    ],
)  # fmt: skip
def test_service_cidr_has_one_network_per_family(cidrs: list[str], problem: str) -> None:
    assert create_problems(RANGES, {"spec": {"cidrs": cidrs}}) == [f"spec.cidrs{problem}"]


@pytest.mark.parametrize(
    ("after", "problems"),
    [
        (["10.0.0.0/8", "fd00::/64"], []),
        (["11.0.0.0/8"], ['spec.cidrs[0]: Invalid value: "11.0.0.0/8": field is immutable']),
        ([], ["spec.cidrs: Invalid value: null: field is immutable"]),
    ],
)
def test_service_cidr_may_only_add_the_other_family(after: list[str], problems: list[str]) -> None:
    assert update_problems(RANGES, {"spec": {"cidrs": ["10.0.0.0/8"]}}, {"spec": {"cidrs": after}}) == problems
