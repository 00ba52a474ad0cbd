# SPDX-License-Identifier: Apache-2.0
"""Rules of ConfigMaps and Secrets."""

from __future__ import annotations

from base64 import b64encode

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import CONFIG_KEY

HALF = "A" * 699_052  # a base64 text of half the maximum size


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


CASES = [
    *creates("configmaps", {}, [
        ({"data": {"a b": "c"}}, ['data[a b]: Invalid value: "a b": ' + CONFIG_KEY]),
        ({"binaryData": {"a b": "YQ=="}}, ['binaryData[a b]: Invalid value: "a b": ' + CONFIG_KEY]),
        ({"data": {"a": "b"}, "binaryData": {"a": "YQ=="}},
            ['data[a]: Invalid value: "a": duplicate of key present in binaryData']),
        ({"data": {"a": "b" * 1_048_577}}, ["[]: Too long: may not be more than 1048576 bytes"]),
        ({"data": {"a": "b" * 524_288}, "binaryData": {"b": HALF}},
            ["[]: Too long: may not be more than 1048576 bytes"]),
    ]),
    *updates("configmaps", {}, [
        ({"immutable": True}, {}, ["immutable: Forbidden: field is immutable when `immutable` is set"]),
        ({"immutable": True}, {"immutable": True, "data": {"a": "b"}},
            ["data: Forbidden: field is immutable when `immutable` is set"]),
        ({"immutable": True}, {"immutable": True, "binaryData": {"a": "YQ=="}},
            ["binaryData: Forbidden: field is immutable when `immutable` is set"]),
        ({}, {"data": {"a b": "c"}}, ['data[a b]: Invalid value: "a b": ' + CONFIG_KEY]),
    ]),
    *creates("secrets", {}, [
        ({"data": {"a b": "YQ=="}}, ['data[a b]: Invalid value: "a b": ' + CONFIG_KEY]),
        ({"data": {"a": HALF, "b": HALF, "c": "YQ=="}}, ["data: Too long: may not be more than 1048576 bytes"]),
        ({"type": "kubernetes.io/service-account-token"},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"]),
        ({"type": "kubernetes.io/dockercfg"}, ["data[.dockercfg]: Required value"]),
        ({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "YQ=="}},
            ["data[.dockercfg]: Invalid value: \"<secret contents redacted>\": invalid character 'a' looking "
             "for beginning of value"]),
        ({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": encoded('{"a": [1 2]}')}},
            ["data[.dockercfg]: Invalid value: \"<secret contents redacted>\": invalid character '2' after "
             "array element"]),
        ({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": encoded("[]")}},
            ['data[.dockercfg]: Invalid value: "<secret contents redacted>": json: cannot unmarshal array into '
             "Go value of type map[string]interface {}"]),
        ({"type": "kubernetes.io/dockerconfigjson"}, ["data[.dockerconfigjson]: Required value"]),
        ({"type": "kubernetes.io/basic-auth"}, ["data[username]: Required value", "data[password]: Required value"]),
        ({"type": "kubernetes.io/ssh-auth"}, ["data[ssh-privatekey]: Required value"]),
        ({"type": "kubernetes.io/tls"}, ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
    ]),
    *updates("secrets", {}, [
        ({}, {"type": "example.com/t"}, ['type: Invalid value: "example.com/t": field is immutable']),
        ({"immutable": True}, {}, ["immutable: Forbidden: field is immutable when `immutable` is set"]),
        ({"immutable": True}, {"immutable": True, "data": {"a": "YQ=="}},
            ["data: Forbidden: field is immutable when `immutable` is set"]),
        ({}, {"data": {"a b": "YQ=="}}, ['data[a b]: Invalid value: "a b": ' + CONFIG_KEY]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_data_is_reported(case: Case) -> None:
    assert case.found() == case.errors
