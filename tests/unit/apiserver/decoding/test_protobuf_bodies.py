# SPDX-License-Identifier: Apache-2.0
"""Bodies in protocol buffers become the same objects as those in JSON, or are refused in upstream's words."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubeloop.api import codec, errors
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.api.protobuf import encode_object
from kubeloop.apiserver.decoding import decode_object
from tests.unit.api.protobuf.random_messages import sample
from tests.unit.api.protobuf.test_vectors import DEPLOYMENT

MEDIA = "application/vnd.kubernetes.protobuf"
BY_KIND: dict[str, Resource] = {resource.kind: resource for resource in reversed(RESOURCES)}


def body_of(kind: str, api_version: str = "", **fields: Any) -> bytes:
    resource = BY_KIND[kind]
    return encode_object({"apiVersion": api_version or resource.group_version, "kind": kind, **fields})


def refusal(body: bytes, kind: str) -> str:
    with pytest.raises(errors.BadRequest) as caught:
        decode_object(body, MEDIA, BY_KIND[kind], "Strict")
    return caught.value.message


def test_object_is_decoded_and_defaulted() -> None:
    body = body_of("Service", metadata={"name": "s"}, spec={"ports": [{"port": 80, "targetPort": "http"}]})
    service = decode_object(body, MEDIA, BY_KIND["Service"], "Strict").obj
    assert service.metadata.name == "s"
    assert (service.spec.ports[0].target_port, service.spec.ports[0].protocol) == ("http", "TCP")


def test_empty_fields_of_go_clients_change_nothing() -> None:
    meta, pod = {"labels": {"app": "web"}}, {"containers": [{"name": "nginx", "image": "nginx"}]}
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", **meta},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": meta, "spec": pod},
        },
    }
    resource = BY_KIND["Deployment"]
    from_json = decode_object(json.dumps(document).encode(), "application/json", resource, "Strict").obj
    assert decode_object(DEPLOYMENT, MEDIA, resource, "Strict").obj == from_json


def test_a_definition_that_a_go_client_sends_has_no_empty_fields_in_its_nested_schemas() -> None:
    empty = {"id": "", "$schema": "", "title": "", "format": "", "pattern": "", "uniqueItems": False, "nullable": False}
    text = {**empty, "type": "string"}
    schemas = {
        "list": {"type": "array", "items": text},
        "map": {"type": "object", "additionalProperties": text},
        "length": {"type": "string", "maxLength": 0},
    }
    version = {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": schemas}}}
    body = body_of("CustomResourceDefinition", metadata={"name": "a"}, spec={"versions": [version]})
    found = decode_object(body, MEDIA, BY_KIND["CustomResourceDefinition"], "Strict").obj
    assert codec.to_plain(found.spec.versions[0].schema.open_apiv3_schema)["properties"] == {
        "list": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "length": {"type": "string", "maxLength": 0},
    }


def test_zero_values_in_nested_schemas_of_a_json_body_are_dropped() -> None:
    empty = {"id": "", "nullable": False, "x-kubernetes-int-or-string": False}
    schema = {
        "type": "object",
        "items": [{"type": "string", **empty}],
        "additionalProperties": {"items": {"type": "integer", "maximum": 0, **empty}},
        "additionalItems": False,
        "dependencies": {"a": ["b"], "c": {"not": {"items": empty}}},
    }
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    document = {"kind": "CustomResourceDefinition", "spec": {"versions": [version]}}
    found = decode_object(
        json.dumps(document).encode(), "application/json", BY_KIND["CustomResourceDefinition"], "Strict"
    ).obj
    assert codec.to_plain(found.spec.versions[0].schema.open_apiv3_schema) == {
        "type": "object",
        "items": [{"type": "string"}],
        "additionalProperties": {"items": {"type": "integer", "maximum": 0}},
        "additionalItems": False,
        "dependencies": {"a": ["b"], "c": {"not": {"items": {}}}},
    }


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: f"{one.group_version}-{one.kind}")
@given(seed=st.integers(0, 2**32))
@example(seed=662)
@example(seed=19)
@settings(max_examples=3, deadline=None)
def test_every_kind_decodes_like_json(resource: Resource, seed: int) -> None:
    plain = sample(resource.definition, Random(seed))
    document = {"apiVersion": resource.group_version, "kind": resource.kind, **plain}
    from_json = decode_object(json.dumps(document).encode(), "application/json", resource, "Ignore").obj
    from_protobuf = decode_object(encode_object(document), MEDIA, resource, "Ignore").obj
    assert codec.to_plain(from_protobuf) == codec.to_plain(from_json)


def test_missing_envelope_fields_come_from_the_path() -> None:
    body = b"k8s\x00" + b"\x0a\x00" + b"\x12\x05\x0a\x03\x0a\x01a"
    pod = decode_object(body, MEDIA, BY_KIND["Pod"], "Strict").obj
    assert (pod.kind, pod.api_version, pod.metadata.name) == ("Pod", "v1", "a")


def test_a_body_without_the_prefix_is_not_recognized() -> None:
    assert refusal(b"{}", "Pod") == (
        "the object provided is unrecognized (must be of type Pod): provided data does not appear to be a protobuf "
        "message, expected prefix [107 56 115 0] ({})"
    )


def test_malformed_message_is_reported_with_its_kind() -> None:
    body = b"k8s\x00" + b"\x0a\x09\x0a\x02v1\x12\x03Pod" + b"\x12\x02\x0a\x05"
    assert refusal(body, "Pod") == 'Pod in version "v1" cannot be handled as a Pod: unexpected EOF'


def test_another_kind_is_rejected() -> None:
    assert refusal(body_of("ConfigMap"), "Pod").startswith('ConfigMap in version "v1" cannot be handled as a Pod: ')


def test_unknown_kind_is_rejected() -> None:
    body = b"k8s\x00" + b"\x0a\x09\x0a\x02v1\x12\x03Pox"
    assert refusal(body, "Pod") == (
        'Pox in version "v1" cannot be handled as a Pod: '
        'no kind "Pox" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"'
    )


@pytest.mark.parametrize(("number", "read"), [(2**40, 0), (2**31, -(2**31)), (2**32 + 5, 5)])
def test_integers_overflow_as_in_go(number: int, read: int) -> None:
    """As in kube-apiserver, whose decoder drops the upper bits."""
    body = body_of("Deployment", spec={"replicas": number})
    assert decode_object(body, MEDIA, BY_KIND["Deployment"], "Strict").obj.spec.replicas == read


def test_invalid_quantity_is_rejected() -> None:
    body = body_of("ResourceQuota", spec={"hard": {"cpu": "bogus"}})
    assert "quantities must match the regular expression" in refusal(body, "ResourceQuota")


@given(raw=st.binary(max_size=120))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_an_object_or_a_bad_request(raw: bytes) -> None:
    for body in (raw, b"k8s\x00" + raw, b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12" + bytes([len(raw)]) + raw):
        try:
            decode_object(body, MEDIA, BY_KIND["Pod"], "Warn")
        except errors.BadRequest:
            continue
