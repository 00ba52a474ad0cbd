# SPDX-License-Identifier: Apache-2.0
"""Known bytes: one body that kubectl 1.32 sent, the others put together by hand from the rules of the wire."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.protobuf import decode_object, encode_object, encode_watch_event, open_envelope
from kubeloop.api.protobuf.table import message_of

# kubectl create deployment web --image=nginx
DEPLOYMENT = bytes.fromhex(
    "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412ab010a1f0a0377656212001a0022002a0032003800"
    "42005a0a0a036170701203776562127a0801120c0a0a0a0361707012037765621a600a1c0a0012001a0022002a00320038"
    "0042005a0a0a036170701203776562124012220a056e67696e7812056e67696e782a0042006a0072008001008801009001"
    "00a201001a00320042004a0052005800600068008201008a01009a0100c2010022020a00280038001a0c08001000180020"
    "00280038001a002200"
)
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
CORE = "io.k8s.api.core.v1."


def test_deployment_from_kubectl_is_decoded() -> None:
    plain = decode_object(*open_envelope(DEPLOYMENT))
    assert (plain["apiVersion"], plain["kind"], plain["metadata"]["name"]) == ("apps/v1", "Deployment", "web")
    assert plain["spec"]["replicas"] == 1
    assert plain["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    container = plain["spec"]["template"]["spec"]["containers"][0]
    assert (container["name"], container["image"]) == ("nginx", "nginx")
    assert "creationTimestamp" not in plain["metadata"]


def test_small_object_has_exact_bytes() -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    meta = b"\x0a\x02v1" + b"\x12\x09ConfigMap"
    raw = b"\x0a\x03\x0a\x01a" + b"\x12\x06\x0a\x01k\x12\x01v"
    assert encode_object(document) == b"k8s\x00" + b"\x0a\x0f" + meta + b"\x12\x0d" + raw + b"\x1a\x00\x22\x00"


VECTORS: list[tuple[str, dict[str, Any], bytes]] = [
    # The source of a volume is a separate message, which JSON does not show.
    (CORE + "Volume", {"name": "v", "emptyDir": {}}, b"\x0a\x01v" + b"\x12\x02" + b"\x12\x00"),
    (CORE + "ConfigMapKeySelector", {"name": "n", "key": "k"}, b"\x0a\x03\x0a\x01n" + b"\x12\x01k"),
    # Inlined messages within inlined messages.
    (
        "io.k8s.api.admissionregistration.v1.NamedRuleWithOperations",
        {"operations": ["*"], "apiGroups": [""]},
        b"\x12\x07" + b"\x0a\x01*" + b"\x12\x02" + b"\x0a\x00",
    ),
    # A map of quantities.
    (CORE + "ResourceQuotaSpec", {"hard": {"cpu": "1"}}, b"\x0a\x0a" + b"\x0a\x03cpu" + b"\x12\x03\x0a\x011"),
    # A number or a text.
    (CORE + "TCPSocketAction", {"port": 80}, b"\x0a\x06" + b"\x08\x00\x10\x50\x1a\x00"),
    (CORE + "TCPSocketAction", {"port": "http"}, b"\x0a\x0a" + b"\x08\x01\x10\x00\x1a\x04http"),
    # Negative numbers take ten bytes.
    (CORE + "PodSpec", {"priority": -1}, b"\xc8\x01" + b"\xff" * 9 + b"\x01"),
    # A list in a map is a message.
    ("io.k8s.api.authentication.v1.UserInfo", {"extra": {"k": ["v"]}}, b"\x22\x08\x0a\x01k\x12\x03\x0a\x01v"),
    (META + "APIResource", {"verbs": ["get"]}, b"\x22\x05\x0a\x03get"),
    # Moments, whole and with a fraction.
    (META + "Condition", {"lastTransitionTime": "1970-01-01T00:00:01Z"}, b"\x22\x04\x08\x01\x10\x00"),
    (
        "io.k8s.api.coordination.v1.LeaseSpec",
        {"renewTime": "1970-01-01T00:00:00.000002Z"},
        b"\x22\x05\x08\x00\x10\xd0\x0f",
    ),
    # Bytes that JSON shows in base 64, and JSON of any shape.
    (CORE + "Secret", {"data": {"k": "AP8="}}, b"\x12\x07\x0a\x01k\x12\x02\x00\xff"),
    (META + "ManagedFieldsEntry", {"fieldsV1": {"f:a": {}}}, b"\x3a\x0c" + b'\x0a\x0a{"f:a":{}}'),
]


@pytest.mark.parametrize(("definition", "plain", "wire"), VECTORS)
def test_field_has_exact_wire_form(definition: str, plain: dict[str, Any], wire: bytes) -> None:
    assert message_of(definition).encode(plain) == wire
    assert message_of(definition).decode(wire, {}) == plain


SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


@pytest.mark.parametrize(
    ("plain", "wire"),
    [
        ({"items": {"type": "string"}}, b"\xc2\x01\x0a" + b"\x0a\x08\x2a\x06string"),
        ({"items": [{"nullable": True}]}, b"\xc2\x01\x05" + b"\x12\x03\xa8\x02\x01"),
        ({"additionalProperties": False}, b"\xf2\x01\x02\x08\x00"),
        ({"additionalProperties": {}}, b"\xf2\x01\x04\x08\x01\x12\x00"),
        ({"dependencies": {"a": ["b"]}}, b"\x82\x02\x08\x0a\x01a\x12\x03\x12\x01b"),
        ({"minimum": 1.0}, b"\x59" + b"\x00" * 6 + b"\xf0\x3f"),
        ({"x-kubernetes-int-or-string": True}, b"\xc0\x02\x01"),
        ({"enum": [None]}, b"\xa2\x01\x00"),
    ],
)
def test_schemas_have_values_of_two_shapes(plain: dict[str, Any], wire: bytes) -> None:
    assert message_of(SCHEMA).encode(plain) == wire
    assert message_of(SCHEMA).decode(wire, {}) == plain


def test_seconds_precision_drops_fractions() -> None:
    found = message_of(META + "Condition").decode(b"\x22\x08\x08\x01\x10\x80\xca\xb5\xee\x01", {})
    assert found == {"lastTransitionTime": "1970-01-01T00:00:01Z"}


@pytest.mark.parametrize("wire", [b"\x22\x00", b"\x22\x0b\x08\x80\x92\xb8\xc3\x98\xfe\xff\xff\xff\x01"])
def test_zero_time_is_absent(wire: bytes) -> None:
    assert message_of(META + "Condition").decode(wire, {}) == {}


def test_packed_numbers_are_decoded() -> None:
    definition = CORE + "PodSecurityContext"
    one_by_one, packed = b"\x20\x01\x20\x02", b"\x22\x02\x01\x02"
    assert message_of(definition).decode(packed, {}) == message_of(definition).decode(one_by_one, {})
    assert message_of(definition).decode(packed, {}) == {"supplementalGroups": [1, 2]}


def test_repeated_message_is_merged_and_repeated_text_is_replaced() -> None:
    twice = b"\x0a\x03\x0a\x01a" + b"\x0a\x06\x0a\x01b\x1a\x01n"
    assert message_of(CORE + "Pod").decode(twice, {}) == {"metadata": {"name": "b", "namespace": "n"}}


def test_map_entry_may_lack_key_or_value() -> None:
    assert message_of(CORE + "ConfigMap").decode(b"\x12\x00", {}) == {"data": {"": ""}}
    assert message_of(CORE + "ResourceQuotaSpec").decode(b"\x0a\x03\x0a\x01k", {}) == {"hard": {"k": "0"}}


def test_only_the_object_of_a_watch_event_has_an_envelope() -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap"}
    inner = encode_object(document)
    event = b"\x0a\x05ADDED" + b"\x12" + bytes([len(inner) + 2]) + b"\x0a" + bytes([len(inner)]) + inner
    assert encode_watch_event("ADDED", document) == event
