# SPDX-License-Identifier: Apache-2.0
"""Rules of webhook configurations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_1035_LABEL, DNS_SUBDOMAIN, QUALIFIED_NAME

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
HOOK = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://h"},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
CONFIGURATION = {"webhooks": [HOOK]}


def hook(**fields: Any) -> dict[str, Any]:
    return {"webhooks": [{**HOOK, **fields}]}


def rule(**fields: Any) -> dict[str, Any]:
    return hook(rules=[{**RULE, **fields}])


def service(**fields: Any) -> dict[str, Any]:
    return hook(clientConfig={"service": {"name": "n", "namespace": "n", **fields}})


def url(text: str) -> dict[str, Any]:
    return hook(clientConfig={"url": text})


CASES = [
    *creates("validatingwebhookconfigurations.admissionregistration.k8s.io", CONFIGURATION, [
        (hook(name=""), ["webhooks[0].name: Required value"]),
        (hook(name="a"),
            ['webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated '
             "by dots"]),
        ({"webhooks": [HOOK, HOOK]}, ['webhooks[1].name: Duplicate value: "a.example.com"']),
        (hook(sideEffects=None), ["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"]),
        (hook(sideEffects="Some"),
            ['webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"']),
        (hook(failurePolicy="F"),
            ['webhooks[0].failurePolicy: Unsupported value: "F": supported values: "Fail", "Ignore"']),
        (hook(matchPolicy="M"),
            ['webhooks[0].matchPolicy: Unsupported value: "M": supported values: "Equivalent", "Exact"']),
        (hook(timeoutSeconds=31),
            ["webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"]),
        (hook(namespaceSelector={"matchLabels": {"a b": "c"}}),
            ['webhooks[0].namespaceSelector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (hook(objectSelector={"matchLabels": {"a b": "c"}}),
            ['webhooks[0].objectSelector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (hook(admissionReviewVersions=[]),
            ["webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"]),
        (hook(admissionReviewVersions=["v1", "v1"]),
            ['webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": duplicate version']),
        (hook(admissionReviewVersions=["v1", "V_"]),
            ['webhooks[0].admissionReviewVersions[1]: Invalid value: "V_": ' + DNS_1035_LABEL]),
        (hook(admissionReviewVersions=["v2"]),
            ['webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1']),
        (hook(matchConditions=[{"name": "n", "expression": "x +"}]),
            ['webhooks[0].matchConditions[0].expression: Invalid value: "x +": compilation failed: ERROR: '
             "<input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', "
             "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | x +\n | ...^"]),
        (hook(matchConditions=[{"name": "n", "expression": ""}]),
            ["webhooks[0].matchConditions[0].expression: Required value"]),
        (hook(matchConditions=[{"name": "", "expression": "true"}]),
            ["webhooks[0].matchConditions[0].name: Required value"]),
        (hook(matchConditions=[{"name": "a b", "expression": "true"}]),
            ['webhooks[0].matchConditions[0].name: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (hook(matchConditions=[{"name": "n", "expression": "true"}] * 2),
            ['webhooks[0].matchConditions[1].name: Duplicate value: "n"']),
        (hook(matchConditions=[{"name": f"n{number}", "expression": "true"} for number in range(65)]),
            ["webhooks[0].matchConditions: Too many: 65: must have at most 64 items"]),
        (hook(clientConfig={}),
            ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"]),
        (hook(clientConfig={"url": "https://h", "service": {"name": "n", "namespace": "n"}}),
            ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"]),
        (url("http://h"),
            ["webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; "
             "desired format: https://host[/path]"]),
        (url("https://"),
            ['webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format: '
             "https://host[/path]"]),
        (url("https://u@h"),
            ['webhooks[0].clientConfig.url: Invalid value: "u": user information is not permitted in the URL']),
        (url("https://h#f"),
            ['webhooks[0].clientConfig.url: Invalid value: "f": fragments are not permitted in the URL']),
        (url("https://h?q"),
            ['webhooks[0].clientConfig.url: Invalid value: "q": query parameters are not permitted in the URL']),
        (url("https://h\n"),
            ['webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse "https://h\\n": '
             "net/url: invalid control character in URL; desired format: https://host[/path]"]),
        (url(":h"),
            ['webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse ":h": missing '
             "protocol scheme; desired format: https://host[/path]"]),
        (url("https://[h"),
            ['webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse "https://[h": '
             "missing ']' in host; desired format: https://host[/path]"]),
        (url("https://h:x"),
            ['webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse "https://h:x": '
             'invalid port ":x" after host; desired format: https://host[/path]']),
        (service(namespace=""), ["webhooks[0].clientConfig.service.name: Required value"]),
        (service(name=""), ["webhooks[0].clientConfig.service.namespace: Required value"]),
        (service(port=65536),
            ["webhooks[0].clientConfig.service.port: Invalid value: 65536: port is not valid: must be between 1 "
             "and 65535, inclusive"]),
        (service(path="p"),
            ["webhooks[0].clientConfig.service.path: Invalid value: \"p\": must start with a '/'",
             'webhooks[0].clientConfig.service.path: Invalid value: "p": segment[0] may not be empty']),
        (service(path="//"),
            ['webhooks[0].clientConfig.service.path: Invalid value: "//": segment[0] may not be empty']),
        (service(path="/a//b"),
            ['webhooks[0].clientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty']),
        (service(path="/A_"),
            ['webhooks[0].clientConfig.service.path: Invalid value: "/A_": segment[0]: ' + DNS_SUBDOMAIN]),
        (rule(operations=[]), ["webhooks[0].rules[0].operations: Required value"]),
        (rule(operations=["O"]),
            ['webhooks[0].rules[0].operations[0]: Unsupported value: "O": supported values: "*", "CONNECT", '
             '"CREATE", "DELETE", "UPDATE"']),
        (rule(operations=["*", "CREATE"]),
            ["webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not "
             "specify other operations"]),
        (rule(apiGroups=[]), ["webhooks[0].rules[0].apiGroups: Required value"]),
        (rule(apiVersions=[]), ["webhooks[0].rules[0].apiVersions: Required value"]),
        (rule(apiVersions=[""]), ["webhooks[0].rules[0].apiVersions[0]: Required value"]),
        (rule(resources=[]), ["webhooks[0].rules[0].resources: Required value"]),
        (rule(resources=[""]), ["webhooks[0].rules[0].resources[0]: Required value"]),
        (rule(resources=["a/*", "a/b"]),
            ["webhooks[0].rules[0].resources[1]: Invalid value: \"a/b\": if 'a/*' is present, must not specify a/b"]),
        (rule(resources=["*/b", "a/b"]),
            ["webhooks[0].rules[0].resources[1]: Invalid value: \"a/b\": if '*/b' is present, must not specify a/b"]),
        (rule(resources=["*/*", "a"]),
            ["webhooks[0].rules[0].resources: Invalid value: [\"*/*\",\"a\"]: if '*/*' is present, must not "
             "specify other resources"]),
        (rule(resources=["*", "a"]),
            ["webhooks[0].rules[0].resources: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify "
             "other resources without subresources"]),
        (rule(scope="S"),
            ['webhooks[0].rules[0].scope: Unsupported value: "S": supported values: "*", "Cluster", "Namespaced"']),
    ]),
    *creates("mutatingwebhookconfigurations.admissionregistration.k8s.io", CONFIGURATION, [
        (hook(reinvocationPolicy="R"),
            ['webhooks[0].reinvocationPolicy: Unsupported value: "R": supported values: "IfNeeded", "Never"']),
        (hook(name="a"),
            ['webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated '
             "by dots"]),
    ]),
    *updates("validatingwebhookconfigurations.admissionregistration.k8s.io", CONFIGURATION, [
        ({}, hook(timeoutSeconds=31),
            ["webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_webhooks_are_reported(case: Case) -> None:
    assert case.found() == case.errors
