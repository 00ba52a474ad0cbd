# SPDX-License-Identifier: Apache-2.0
"""Rules of CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_1035_LABEL, DNS_SUBDOMAIN

PART = {"type": "object", "properties": {"a": {"type": "string"}}}
SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": PART}}}
VERSION = {"name": "v1", "served": True, "storage": True, "schema": SCHEMA}
DEFINITION = {
    "metadata": {"name": "as.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
        "versions": [VERSION],
    },
    "status": {"storedVersions": ["v1"]},
}
SCALE = {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}
CLIENT = {"url": "https://h"}
COLUMN = {"name": "n", "type": "string", "jsonPath": ".a"}
APPROVAL = "api-approved.kubernetes.io"


def version(**fields: Any) -> dict[str, Any]:
    return {"spec.versions": [{**VERSION, **fields}]}


def scale(**fields: Any) -> dict[str, Any]:
    return version(subresources={"scale": {**SCALE, **fields}})


def conversion(*versions: str, client: dict[str, Any] | None = CLIENT, strategy: str = "Webhook") -> dict[str, Any]:
    webhook = {"clientConfig": client, "conversionReviewVersions": list(versions)}
    return {"spec.conversion": {"strategy": strategy, "webhook": webhook}}


def group(name: str, annotations: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": f"as.{name}", "annotations": annotations}, "spec.group": name}


def selectable(*paths: str) -> dict[str, Any]:
    return version(selectableFields=[{"jsonPath": path} for path in paths])


CASES = [
    *creates("customresourcedefinitions.apiextensions.k8s.io", DEFINITION, [
        ({"metadata": {"name": "bs.example.com"}},
            ['metadata.name: Invalid value: "bs.example.com": must be spec.names.plural+"."+spec.group']),
        ({"spec.group": "", "metadata": {"name": "as."}},
            ['metadata.name: Invalid value: "as.": ' + DNS_SUBDOMAIN, "spec.group: Required value"]),
        ({"spec.group": "G_", "metadata": {"name": "as.g"}},
            ['metadata.name: Invalid value: "as.g": must be spec.names.plural+"."+spec.group',
             'spec.group: Invalid value: "G_": ' + DNS_SUBDOMAIN]),
        ({"spec.group": "g", "metadata": {"name": "as.g"}},
            ['spec.group: Invalid value: "g": should be a domain with at least one dot']),
        ({"spec.scope": "S"}, ['spec.scope: Unsupported value: "S": supported values: "Cluster", "Namespaced"']),
        ({"spec.preserveUnknownFields": True},
            ["spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
             "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"]),
        (group("a.k8s.io", {}),
            ["metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have "
             'approval annotation "api-approved.kubernetes.io", see '
             "https://github.com/kubernetes/enhancements/pull/1111"]),
        (group("a.k8s.io", {APPROVAL: "x"}),
            ['metadata.annotations[api-approved.kubernetes.io]: Invalid value: "x": protected groups must have '
             'approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with '
             '"unapproved", see https://github.com/kubernetes/enhancements/pull/1111']),
        ({"spec.names.plural": "", "metadata": {"name": ".example.com"}},
            ['metadata.name: Invalid value: ".example.com": ' + DNS_SUBDOMAIN, "spec.names.plural: Required value"]),
        ({"spec.names.kind": "K_"},
            ['spec.names.kind: Invalid value: "K_": may have mixed case, but should otherwise '
             "match: " + DNS_1035_LABEL]),
        ({"spec.names.singular": "S_"}, ['spec.names.singular: Invalid value: "S_": ' + DNS_1035_LABEL]),
        ({"spec.names.listKind": "A"},
            ['spec.names.listKind: Invalid value: "A": kind and listKind may not be the same']),
        ({"spec.names.shortNames": ["S_"]}, ['spec.names.shortNames[0]: Invalid value: "S_": ' + DNS_1035_LABEL]),
        ({"spec.names.categories": ["C_"]}, ['spec.names.categories[0]: Invalid value: "C_": ' + DNS_1035_LABEL]),
        (version(schema=None), ["spec.versions[0].schema.openAPIV3Schema: Required value"]),
        (version(name="V_"),
            ['spec.versions[0].name: Invalid value: "V_": ' + DNS_1035_LABEL,
             'spec.version: Invalid value: "V_": ' + DNS_1035_LABEL]),
        (version(deprecationWarning="w"),
            ['spec.versions[0].deprecationWarning: Invalid value: "w": can only be set for deprecated versions']),
        (version(deprecated=True, deprecationWarning=""),
            ['spec.versions[0].deprecationWarning: Invalid value: "": must not be an empty string']),
        (version(deprecated=True, deprecationWarning="w" * 257),
            ["spec.versions[0].deprecationWarning: Invalid value: "
             '"wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww'
             "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww"
             'wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww": must be <= 256 '
             "characters long"]),
        (version(deprecated=True, deprecationWarning="a\nb"),
            ['spec.versions[0].deprecationWarning: Invalid value: "a\\nb": must only contain printable UTF-8 '
             "characters; non-printable character found at index 1"]),
        (version(storage=False),
            [("spec.versions: Invalid value: "
             '[{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Sc'
             'hema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must '
             "have exactly one version marked as storage version"),
             "status.storedVersions: Invalid value: null: must have at least one stored version"]),
        ({"spec.versions": [VERSION, {**VERSION, "storage": False}]},
            ["spec.versions: Invalid value: "
             '[{"Name":"v1","Served":true,"Storage":true,"Deprecated":false,"DeprecationWarning":null,"Sch'
             'ema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null},{"Nam'
             'e":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":'
             'null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must contain '
             "unique version names"]),
        (version(additionalPrinterColumns=[{**COLUMN, "name": ""}]),
            ["spec.additionalPrinterColumns[0].name: Required value"]),
        (version(additionalPrinterColumns=[{**COLUMN, "type": ""}]),
            ["spec.additionalPrinterColumns[0].type: Required value: must be one of "
             "boolean,date,integer,number,string"]),
        (version(additionalPrinterColumns=[{**COLUMN, "type": "T"}]),
            ['spec.additionalPrinterColumns[0].type: Invalid value: "T": must be one of '
             "boolean,date,integer,number,string"]),
        (version(additionalPrinterColumns=[{**COLUMN, "format": "F"}]),
            ['spec.additionalPrinterColumns[0].format: Invalid value: "F": must be one of '
             "byte,date,date-time,double,float,int32,int64,password"]),
        (version(additionalPrinterColumns=[{**COLUMN, "jsonPath": ""}]),
            ["spec.additionalPrinterColumns[0].JSONPath: Required value"]),
        (version(additionalPrinterColumns=[{**COLUMN, "jsonPath": "a"}]),
            ['spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path '
             "starting with ."]),
        (scale(specReplicasPath=""), ["spec.subresources.scale.specReplicasPath: Required value"]),
        (scale(statusReplicasPath="a"),
            ['spec.subresources.scale.statusReplicasPath: Invalid value: "a": must be a simple json path '
             "starting with ."]),
        (scale(specReplicasPath=".a"),
            ['spec.subresources.scale.specReplicasPath: Invalid value: ".a": should be a json path under .spec']),
        (scale(labelSelectorPath="a"),
            ['spec.subresources.scale.labelSelectorPath: Invalid value: "a": must be a simple json path '
             "starting with ."]),
        (scale(labelSelectorPath=".a"),
            ['spec.subresources.scale.labelSelectorPath: Invalid value: ".a": should be a json path under '
             "either .spec or .status"]),
        (version(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "T"}}}}),
            ['spec.validation.openAPIV3Schema.properties[a].type: Unsupported value: "T": supported values: '
             '"array", "boolean", "integer", "number", "object", "string"']),
        (selectable(""), ["spec.selectableFields[0].jsonPath: Required value"]),
        (selectable(".spec.b"),
            ['spec.selectableFields[0].jsonPath: Invalid value: ".spec.b": is an invalid path: does not refer '
             "to a valid field"]),
        (selectable(".spec"),
            ['spec.selectableFields[0].jsonPath: Invalid value: ".spec": must point to a field of type string, '
             "boolean or integer. Enum string fields and strings with formats are allowed."]),
        (version(schema={"openAPIV3Schema": {"type": "object", "properties": {"metadata": {
            "type": "object", "properties": {"name": {"type": "string"}}}}}},
                 selectableFields=[{"jsonPath": ".metadata.name"}]),
                 ['spec.selectableFields[0].jsonPath: Invalid value: ".metadata.name": must not point to fields '
                  "in metadata"]),
        (selectable(".metadata.name"),
            ['spec.selectableFields[0].jsonPath: Invalid value: ".metadata.name": is an invalid path: does not '
             "refer to a valid field"]),
        (selectable(".spec.a", ".spec.a"), ['spec.selectableFields[1].jsonPath: Duplicate value: ".spec.a"']),
        (conversion("v1", strategy="S"),
            ['spec.conversion.strategy: Unsupported value: "S": supported values: "None", "Webhook"',
             ("spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to "
             "Webhook"),
             ("spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set "
             "to Webhook")]),
        (conversion("v1", strategy="None"),
            [("spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to "
             "Webhook"),
             ("spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set "
             "to Webhook")]),
        (conversion("v1", client=None),
            ["spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook"]),
        (conversion("v1", client={}),
            ["spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required"]),
        (conversion(), ["spec.conversion.conversionReviewVersions: Required value"]),
        (conversion("v1", "v1"),
            ['spec.conversion.conversionReviewVersions[1]: Invalid value: "v1": duplicate version']),
        (conversion("v1", "V_"),
            ['spec.conversion.conversionReviewVersions[1]: Invalid value: "V_": ' + DNS_1035_LABEL]),
        (conversion("v2"),
            ['spec.conversion.conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, '
             "v1beta1"]),
        ({**conversion("v1"), "spec.preserveUnknownFields": True},
            [('spec.conversion.strategy: Invalid value: "Webhook": must be None if spec.preserveUnknownFields is '
             "true"),
             ("spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
             "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead")]),
    ]),
    *updates("customresourcedefinitions.apiextensions.k8s.io", DEFINITION, [
        ({"status.conditions": [{"type": "Established", "status": "True"}]},
         {"status.conditions": [{"type": "Established", "status": "True"}], "spec.scope": "Cluster"},
         ['spec.scope: Invalid value: "Cluster": field is immutable']),
        ({"status.conditions": [{"type": "Established", "status": "True"}]},
         {"status.conditions": [{"type": "Established", "status": "True"}], "spec.names.kind": "B"},
         ['spec.names.kind: Invalid value: "B": field is immutable']),
        ({}, {"spec.group": "example.org"}, ['spec.group: Invalid value: "example.org": field is immutable']),
        ({}, {"spec.names.plural": "bs"}, ['spec.names.plural: Invalid value: "bs": field is immutable']),
        ({}, {"spec.scope": "S"}, ['spec.scope: Unsupported value: "S": supported values: "Cluster", "Namespaced"']),
        ({}, {"spec.preserveUnknownFields": True},
            ["spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
             "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"]),
        (group("a.k8s.io", {APPROVAL: "https://h/p"}), group("a.k8s.io", {}),
            ["metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have "
             'approval annotation "api-approved.kubernetes.io", see '
             "https://github.com/kubernetes/enhancements/pull/1111"]),
    ]),
    *updates("customresourcedefinitions.apiextensions.k8s.io", DEFINITION, [
        ({}, version(name="v2"),
            ['status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a '
             "storage version, and must remain in spec.versions until a storage migration ensures no data "
             "remains persisted in v1 and removes v1 from status.storedVersions"]),
    ]),
    *updates("customresourcedefinitions.apiextensions.k8s.io", DEFINITION, [
        ({}, {"status.acceptedNames": {"plural": "P_", "kind": "A"}},
            ['status.acceptedNames.plural: Invalid value: "P_": ' + DNS_1035_LABEL]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_definitions_are_reported(case: Case) -> None:
    assert case.found() == case.errors
