# SPDX-License-Identifier: Apache-2.0
"""Rules of Ingresses and IngressClasses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN

BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
INGRESS = {"spec": {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Exact", "backend": BACKEND}]}}]}}
CLASS = {"spec": {"controller": "example.com/c"}}
PATH = "spec.rules.0.http.paths.0."
RESOURCE = {"kind": "K", "name": "n"}


def backend(**fields: Any) -> dict[str, Any]:
    return {"spec.defaultBackend": fields}


def service(**fields: Any) -> dict[str, Any]:
    return backend(service={"name": "s", "port": {"number": 80}, **fields})


def point(**fields: Any) -> dict[str, Any]:
    return {"status.loadBalancer": {"ingress": [fields]}}


def parameters(**fields: Any) -> dict[str, Any]:
    return {"spec.parameters": {"kind": "K", "name": "n", "scope": "Cluster", **fields}}


CASES = [
    *creates("ingresses.networking.k8s.io", INGRESS, [
        ({"spec": {}}, ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
        ({"metadata": {"annotations": {"kubernetes.io/ingress.class": "a"}}, "spec.ingressClassName": "b"},
            ['annotations.kubernetes.io/ingress.class: Invalid value: "a": must match `ingressClassName` when '
             "both are specified"]),
        ({"spec.ingressClassName": "C_"}, ['spec.ingressClassName: Invalid value: "C_": ' + DNS_SUBDOMAIN]),
        ({"spec.rules.0.host": "1.1.1.1"},
            ['spec.rules[0].host: Invalid value: "1.1.1.1": must be a DNS name, not an IP address']),
        ({"spec.rules.0.host": "H_"}, ['spec.rules[0].host: Invalid value: "H_": ' + DNS_SUBDOMAIN]),
        ({"spec.rules.0.host": "a.*"},
            ["spec.rules[0].host: Invalid value: \"a.*\": a wildcard DNS-1123 subdomain must start with '*.', "
             "followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' "
             "or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is "
             "'\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]),
        ({"spec.rules.0.http.paths": []}, ["spec.rules[0].http.paths: Required value"]),
        ({PATH + "pathType": None},
            ["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"]),
        ({PATH + "pathType": "P"},
            ['spec.rules[0].http.paths[0].pathType: Unsupported value: "P": supported values: "Exact", '
             '"ImplementationSpecific", "Prefix"']),
        ({PATH + "path": "p"}, ['spec.rules[0].http.paths[0].path: Invalid value: "p": must be an absolute path']),
        ({PATH + "path": "/a//b"},
            ["spec.rules[0].http.paths[0].path: Invalid value: \"/a//b\": must not contain '//'"]),
        ({PATH + "path": "/a/.."},
            ["spec.rules[0].http.paths[0].path: Invalid value: \"/a/..\": cannot end with '/..'"]),
        ({PATH + "backend": {}},
            ['spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required']),
        (backend(), ['spec.defaultBackend: Invalid value: "": resource or service backend is required']),
        (backend(**BACKEND, resource=RESOURCE),
            ['spec.defaultBackend: Invalid value: "": cannot set both resource and service backends']),
        (backend(resource={**RESOURCE, "apiGroup": "G_"}),
            ['spec.defaultBackend.resource.apiGroup: Invalid value: "G_": ' + DNS_SUBDOMAIN]),
        (backend(resource={"kind": "", "name": ""}),
            ["spec.defaultBackend.resource.kind: Required value",
             "spec.defaultBackend.resource.name: Required value"]),
        (backend(resource={"kind": "K/", "name": ".."}),
            ["spec.defaultBackend.resource.kind: Invalid value: \"K/\": may not contain '/'",
             "spec.defaultBackend.resource.name: Invalid value: \"..\": may not be '..'"]),
        (service(name=""), ["spec.defaultBackend.service.name: Required value"]),
        (service(name="S_"), ['spec.defaultBackend.service.name: Invalid value: "S_": ' + DNS_LABEL]),
        (service(port={"name": "p", "number": 80}),
            ['spec.defaultBackend: Invalid value: "": cannot set both port name & port number']),
        (service(port={"name": "P_"}),
            [('spec.defaultBackend.service.port.name: Invalid value: "P_": must contain only alpha-numeric '
             "characters (a-z, 0-9), and hyphens (-)"),
             'spec.defaultBackend.service.port.name: Invalid value: "P_": must contain at least one letter (a-z)']),
        (service(port={"number": 65536}),
            ["spec.defaultBackend.service.port.number: Invalid value: 65536: must be between 1 and 65535, "
             "inclusive"]),
        (service(port={}), ["spec.defaultBackend: Required value: port name or number is required"]),
        ({"spec.tls": [{"hosts": ["H_"]}]}, ['spec.tls[0].hosts[0]: Invalid value: "H_": ' + DNS_SUBDOMAIN]),
        ({"spec.tls": [{"secretName": "S_"}]}, ['spec.tls[0].secretName: Invalid value: "S_": ' + DNS_SUBDOMAIN]),
    ]),
    *updates("ingresses.networking.k8s.io", INGRESS, [
        ({}, {"spec.ingressClassName": "C_"}, ['spec.ingressClassName: Invalid value: "C_": ' + DNS_SUBDOMAIN]),
        ({}, {"spec.tls": [{"secretName": "S_"}]}, ['spec.tls[0].secretName: Invalid value: "S_": ' + DNS_SUBDOMAIN]),
        ({"spec.rules.0.host": "*.a", PATH + "path": "p"}, {"spec.rules.0.host": "*.A_", PATH + "path": "p"},
            ["spec.rules[0].host: Invalid value: \"*.A_\": a wildcard DNS-1123 subdomain must start with '*.', "
             "followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' "
             "or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is "
             "'\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]),
    ]),
    *updates("ingresses.networking.k8s.io", INGRESS, [
        ({}, point(ip="x"),
            ['status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 '
             "or 2001:db8::ffff)"]),
        ({}, point(hostname="H_"),
            ['status.loadBalancer.ingress[0].hostname: Invalid value: "H_": ' + DNS_SUBDOMAIN]),
        ({}, point(hostname="1.1.1.1"),
            ['status.loadBalancer.ingress[0].hostname: Invalid value: "1.1.1.1": must be a DNS name, not an IP '
             "address"]),
    ], "status"),
    *creates("ingressclasses.networking.k8s.io", CLASS, [
        ({"spec.controller": ""}, ["spec.controller: Required value"]),
        ({"spec.controller": "c"},
            ['spec.controller: Invalid value: "c": must be a domain-prefixed path (such as "acme.io/foo")']),
        ({"spec.controller": "example.com/" + "c" * 250},
            ["spec.controller: Too long: may not be more than 250 bytes"]),
        (parameters(kind=""), ["spec.parameters.kind: Required value"]),
        (parameters(name="a/b"), ["spec.parameters.name: Invalid value: \"a/b\": may not contain '/'"]),
        (parameters(apiGroup="G_"), ['spec.parameters.apiGroup: Invalid value: "G_": ' + DNS_SUBDOMAIN]),
        (parameters(scope="S"),
            ['spec.parameters.scope: Unsupported value: "S": supported values: "Cluster", "Namespace"']),
        (parameters(namespace="n"), ["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"]),
        (parameters(scope="Namespace"),
            ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"]),
        (parameters(scope="Namespace", namespace="N_"),
            ['spec.parameters.namespace: Invalid value: "N_": ' + DNS_LABEL]),
    ]),
    *updates("ingressclasses.networking.k8s.io", CLASS, [
        ({}, {"spec.controller": "example.com/d"},
            ['spec.controller: Invalid value: "example.com/d": field is immutable']),
        ({}, parameters(scope="S"),
            ['spec.parameters.scope: Unsupported value: "S": supported values: "Cluster", "Namespace"']),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_ingresses_are_reported(case: Case) -> None:
    assert case.found() == case.errors
