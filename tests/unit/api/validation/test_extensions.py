# SPDX-License-Identifier: Apache-2.0
"""Validation tests of API services and custom resource definitions, without schemas."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import altered, create_problems, update_problems

SERVICES = "apiservices.apiregistration.k8s.io"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"

SERVICE = {
    "metadata": {"name": "v1.example.com"},
    "spec": {
        "group": "example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 10,
        "service": {"name": "s", "namespace": "n"},
    },
}


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("metadata.name", "v2.example.com", 'metadata.name: Invalid value: "v2.example.com": must be '
         '`spec.version+"."+spec.group`: "v1.example.com"'),
        ("spec.groupPriorityMinimum", 20001, "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and "
         "less than 20000"),
        ("spec.versionPriority", 0, "spec.versionPriority: Invalid value: 0: must be positive and less than 1000"),
        ("spec.service.name", "", "spec.service.name: Required value"),
        ("spec.service.namespace", "", "spec.service.namespace: Required value"),
        ("spec.service.port", 70000, "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 "
         "and 65535, inclusive"),
    ],
)  # fmt: skip
def test_an_api_service_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(SERVICES, SERVICE) == []
    assert create_problems(SERVICES, altered(SERVICE, {path: value})) == [problem]


def test_local_api_service_needs_no_ca() -> None:
    local = altered(SERVICE, {"spec.service": None, "spec.caBundle": "AAAA", "spec.insecureSkipTLSVerify": True})
    assert create_problems(SERVICES, local) == [
        'spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle',
        "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
    ]


def test_ca_bundle_and_insecure_skip_are_exclusive() -> None:
    both = altered(SERVICE, {"spec.caBundle": "AAAA", "spec.insecureSkipTLSVerify": True})
    problem = "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"
    assert update_problems(SERVICES, SERVICE, both) == [problem]


def test_conditions_of_an_api_service_are_true_false_or_unknown() -> None:
    new = altered(SERVICE, {"status": {"conditions": [{"type": "Available", "status": "Maybe"}]}})
    assert update_problems(SERVICES, SERVICE, new, "status") == [
        'status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", "Unknown"'
    ]


DEFINITION = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
    "status": {"storedVersions": ["v1"]},
}
VERSION = "spec.versions.0"
SHOWN = (
    '[{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,'
    '"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]'
)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("metadata.name", "x.example.com", 'metadata.name: Invalid value: "x.example.com": must be '
         'spec.names.plural+"."+spec.group'),
        ("spec.scope", "", "spec.scope: Required value"),
        ("spec.scope", "Moon", 'spec.scope: Unsupported value: "Moon": supported values: "Cluster", "Namespaced"'),
        ("spec.names.listKind", "Thing", 'spec.names.listKind: Invalid value: "Thing": kind and listKind may not be '
         'the same'),
        (f"{VERSION}.schema", None, "spec.versions[0].schema.openAPIV3Schema: Required value"),
        (f"{VERSION}.deprecationWarning", "old", 'spec.versions[0].deprecationWarning: Invalid value: "old": can only '
         'be set for deprecated versions'),
        (f"{VERSION}.additionalPrinterColumns", [{"name": "c", "type": "text", "jsonPath": ".a"}],
         'spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of '
         'boolean,date,integer,number,string'),
        (f"{VERSION}.additionalPrinterColumns", [{"name": "c", "type": "string", "jsonPath": "a"}],
         'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with .'),
        (f"{VERSION}.subresources", {"scale": {"specReplicasPath": ".a", "statusReplicasPath": ".status.b"}},
         'spec.subresources.scale.specReplicasPath: Invalid value: ".a": should be a json path under .spec'),
        ("spec.conversion", {"strategy": "Magic"}, 'spec.conversion.strategy: Unsupported value: "Magic": supported '
         'values: "None", "Webhook"'),
        ("spec.conversion", {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
         "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook"),
        ("spec.preserveUnknownFields", True, "spec.preserveUnknownFields: Invalid value: true: cannot set to true, "
         "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"),
    ],
)  # fmt: skip
def test_a_definition_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(DEFINITIONS, DEFINITION) == []
    assert create_problems(DEFINITIONS, altered(DEFINITION, {path: value})) == [problem]


def test_exactly_one_version_is_stored() -> None:
    found = update_problems(DEFINITIONS, DEFINITION, altered(DEFINITION, {f"{VERSION}.storage": False}))
    detail = "must have exactly one version marked as storage version"
    assert found == [f"spec.versions: Invalid value: {SHOWN}: {detail}"]


def test_community_group_needs_approval() -> None:
    changes = {"metadata.name": "things.example.k8s.io", "spec.group": "example.k8s.io"}
    protected = altered(DEFINITION, changes)
    (problem,) = create_problems(DEFINITIONS, protected)
    assert problem.startswith("metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must")
    for reason in ("https://example.com/review", "unapproved, just trying"):
        approved = altered(protected, {"metadata.annotations": {"api-approved.kubernetes.io": reason}})
        assert create_problems(DEFINITIONS, approved) == []


def test_names_of_a_definition_are_immutable() -> None:
    old = altered(DEFINITION, {"status.conditions": [{"type": "Established", "status": "True"}]})
    found = update_problems(DEFINITIONS, old, altered(old, {"spec.names.kind": "Other", "spec.scope": "Cluster"}))
    assert found == [
        'spec.names.kind: Invalid value: "Other": field is immutable',
        'spec.scope: Invalid value: "Cluster": field is immutable',
    ]


def test_stored_versions_cannot_be_removed() -> None:
    new = altered(DEFINITION, {"status.storedVersions": ["v0", "v1"]})
    assert update_problems(DEFINITIONS, DEFINITION, new) == [
        'status.storedVersions[0]: Invalid value: "v0": missing from spec.versions; v0 was previously a storage '
        "version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v0 "
        "and removes v0 from status.storedVersions"
    ]
