# SPDX-License-Identifier: Apache-2.0
"""Bodies become objects, or are refused in upstream's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubeloop.api import errors
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.apiserver.decoding import decode_document, decode_object

BY_KIND: dict[str, Resource] = {resource.kind: resource for resource in reversed(RESOURCES)}


def body_of(kind: str, **fields: Any) -> bytes:
    document = {"apiVersion": BY_KIND[kind].group_version, "kind": kind, "metadata": {"name": "n"}, **fields}
    return json.dumps(document).encode()


def refusal(body: bytes | str, kind: str, mode: str = "Warn", media: str = "application/json") -> str:
    raw = body.encode() if isinstance(body, str) else body
    with pytest.raises(errors.BadRequest) as caught:
        decode_object(raw, media, BY_KIND[kind], mode)
    return caught.value.message


def warnings(body: bytes | str, kind: str, mode: str = "Warn", media: str = "") -> list[str]:
    raw = body.encode() if isinstance(body, str) else body
    return decode_object(raw, media, BY_KIND[kind], mode).warnings


def deployment(**spec: Any) -> bytes:
    return body_of("Deployment", spec=spec)


def test_an_ordinary_body_is_decoded_and_defaulted() -> None:
    decoded = decode_object(deployment(paused=True), "application/json", BY_KIND["Deployment"], "Warn")
    assert decoded.obj.spec.replicas == 1
    assert decoded.warnings == []


def test_kind_and_version_may_be_omitted() -> None:
    obj = decode_object(b'{"metadata":{"name":"m"}}', "", BY_KIND["ConfigMap"], "Strict").obj
    assert (obj.kind, obj.api_version) == ("ConfigMap", "v1")


def test_a_null_body_is_an_empty_object() -> None:
    assert decode_object(b"null", "", BY_KIND["ConfigMap"], "Strict").obj.metadata.name == ""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "unexpected end of JSON input (<empty>)"),
        ('{"a', 'unexpected end of JSON input ({"a)'),
        ("hello", "invalid character 'h' looking for beginning of value (68656c6c6f)"),
        ("{} x", "invalid character 'x' after top-level value ({} x)"),
        ("{no", "invalid character 'n' looking for beginning of object key string ({no)"),
        ('{"a" 1}', "invalid character '1' after object key ({\"a\" 1})"),
        ('{"a":1 2}', "invalid character '2' after object key:value pair ({\"a\":1 2})"),
        ('{"a":[1 2]}', "invalid character '2' after array element ({\"a\":[1 2]})"),
        ('{"a":tru}', "invalid character '}' in literal true (expecting 'e') ({\"a\":tru})"),
        ('{"a":"\n"}', 'invalid character \'\\n\' in string literal ({"a":"\n"})'),
        ('{"a":"\\x"}', 'invalid character \'x\' in string escape code ({"a":"\\x"})'),
        ('{"a":-}', "invalid character '}' in numeric literal ({\"a\":-})"),
        ('{"a":1.}', "invalid character '}' after decimal point in numeric literal ({\"a\":1.})"),
        ('{"a":1e}', "invalid character '}' in exponent of numeric literal ({\"a\":1e})"),
        ('{"a":NaN}', "invalid character 'N' looking for beginning of value ({\"a\":NaN})"),
        ("{" + " " * 40, "unexpected end of JSON input ({" + " " * 29 + " ...)"),
    ],
)
def test_malformed_json_is_rejected_with_an_excerpt(body: str, why: str) -> None:
    said = refusal(body, "ConfigMap")
    prefix = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; "
    assert said == f"{prefix}json parse error: {why}"


@pytest.mark.parametrize(("body", "found"), [("[]", "array"), ('"x"', "string"), ("5", "number"), ("true", "bool")])
def test_a_body_must_be_an_object(body: str, found: str) -> None:
    assert f"json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string" in refusal(body, "Pod")


def test_version_must_be_a_string_with_one_slash() -> None:
    said = refusal('{"apiVersion": 1}', "Pod")
    assert "json: cannot unmarshal number into Go struct field .apiVersion of type string" in said
    assert "unexpected GroupVersion string: a/b/c" in refusal('{"apiVersion": "a/b/c"}', "Pod")


def test_mismatched_kinds_have_distinct_errors() -> None:
    assert refusal('{"apiVersion":"v1","kind":"Secret"}', "ConfigMap") == (
        'Secret in version "v1" cannot be handled as a ConfigMap: '
        "converting (v1.Secret) to (core.ConfigMap): unknown conversion"
    )
    assert refusal('{"apiVersion":"v1","kind":"Nosuch"}', "ConfigMap") == (
        'Nosuch in version "v1" cannot be handled as a ConfigMap: no kind "Nosuch" is registered '
        'for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"'
    )
    assert refusal('{"apiVersion":"apps/v1beta1","kind":"Deployment"}', "Deployment") == (
        "the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)"
    )


def test_another_kind_is_decoded_as_that_kind_first() -> None:
    body = '{"apiVersion":"v1","kind":"Secret","data":{"a":"1"}}'
    assert refusal(body, "ConfigMap").endswith("illegal base64 data at input byte 0")


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("ConfigMap", {"data": {"a": 1}}, "number into Go struct field ConfigMap.data of type string"),
        ("ConfigMap", {"data": ["a"]}, "array into Go struct field ConfigMap.data of type map[string]string"),
        ("ConfigMap", {"metadata": "x"}, "string into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
        ("ConfigMap", {"metadata": {"name": 5}}, "number into Go struct field ObjectMeta.metadata.name of type string"),
        (
            "Deployment",
            {"spec": {"replicas": "3"}},
            "string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            {"spec": {"replicas": 1.5}},
            "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            {"spec": {"replicas": 2**31}},
            "number 2147483648 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Pod",
            {"spec": {"containers": {}}},
            "object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "Pod",
            {"spec": {"containers": [{"ports": [{"containerPort": "80"}]}]}},
            "string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            "Service",
            {"spec": {"ports": [{"targetPort": True}]}},
            "bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
        (
            "Pod",
            {"metadata": {"creationTimestamp": 5}},
            "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
    ],
)
def test_type_errors_have_gos_message(kind: str, fields: dict[str, Any], why: str) -> None:
    said = refusal(body_of(kind, **fields), kind)
    version = BY_KIND[kind].version
    assert said == f'{kind} in version "{version}" cannot be handled as a {kind}: json: cannot unmarshal {why}'


def test_first_type_error_is_reported_unless_text_is_unparsable() -> None:
    containers = [{"name": 1, "image": 2, "resources": {"limits": {"cpu": "lots"}}}]
    assert "quantities must match the regular expression" in refusal(
        body_of("Pod", spec={"containers": containers}), "Pod"
    )
    del containers[0]["resources"]
    assert "Container.spec.containers.name" in refusal(body_of("Pod", spec={"containers": containers}), "Pod")


@pytest.mark.parametrize(
    ("text", "place"),
    [("not base64!", 3), ("%%%", 0), ("1", 0), ("AAAAA", 4), ("AA=A", 2), ("A===", 1), ("AA==AA==", 4)],
)
def test_invalid_base64_is_reported_with_its_offset(text: str, place: int) -> None:
    said = refusal(body_of("Secret", data={"a": text}), "Secret")
    assert said.endswith(f"illegal base64 data at input byte {place}")


def test_base64_may_have_line_breaks() -> None:
    decoded = decode_object(body_of("Secret", data={"a": "aGVs\nbG8="}), "", BY_KIND["Secret"], "Strict")
    assert decoded.obj.data == {"a": b"hello"}


def test_nulls_are_absent_in_structs_and_zero_in_lists_and_maps() -> None:
    body = body_of("ConfigMap", data={"a": None}, immutable=None, binaryData=None)
    assert decode_object(body, "", BY_KIND["ConfigMap"], "Strict").obj.data == {"a": ""}
    spec = {"containers": [None, {"name": None, "args": [None], "resources": None}], "hostNetwork": None}
    obj = decode_object(body_of("Pod", spec=spec), "", BY_KIND["Pod"], "Strict").obj
    assert [container.args for container in obj.spec.containers] == [(), ("",)]


def test_unknown_fields_are_rejected_warned_or_ignored() -> None:
    spec = {"template": {"spec": {"containers": [{"name": "c", "imagee": "x"}]}}, "replicaz": 2}
    body = body_of("Deployment", spec=spec, nosuch={})
    found = [
        'unknown field "spec.template.spec.containers[0].imagee"',
        'unknown field "spec.replicaz"',
        'unknown field "nosuch"',
    ]
    assert refusal(body, "Deployment", "Strict") == (
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: ' + ", ".join(found)
    )
    assert warnings(body, "Deployment", "Warn") == found
    assert warnings(body, "Deployment", "Ignore") == []


def test_duplicate_fields_are_reported_in_order() -> None:
    body = '{"metadata":{"name":"x","name":"y"},"data":{"a":"1","a":"2"},"data":{"b":"3"}}'
    assert warnings(body, "ConfigMap") == [f'duplicate field "{path}"' for path in ("metadata.name", "data.a", "data")]


def test_duplicate_objects_are_merged() -> None:
    body = b'{"metadata":{"name":"x"},"metadata":{"labels":{"a":"b"}},"data":{"a":"1"},"data":{"b":"2"}}'
    obj = decode_object(body, "", BY_KIND["ConfigMap"], "Ignore").obj
    assert (obj.metadata.name, obj.metadata.labels, obj.data) == ("x", {"a": "b"}, {"a": "1", "b": "2"})


@pytest.mark.parametrize(
    "body",
    [
        '{"data" : {"a":"1", "a" :"2"}}',
        '{"data":{"a\\\\":"1","a\\\\":"2"}}',
        '{"data":{"q":"\\"x\\":1","a":"1","a":"2"}}',
        '{"data":{"b\\u005c":"","a" : "1","a":"2"}}',
    ],
)
def test_escaped_duplicate_keys_are_detected(body: str) -> None:
    assert len(warnings(body, "ConfigMap")) == 1


def test_keys_are_case_sensitive() -> None:
    assert warnings('{"Data":{"a":"1"}}', "ConfigMap") == ['unknown field "Data"']


def test_strict_errors_are_limited_to_a_hundred() -> None:
    body = body_of("ConfigMap", **{f"x{index}": 1 for index in range(150)})
    assert len(warnings(body, "ConfigMap")) == 100


def test_free_form_json_is_kept_and_not_checked() -> None:
    body = b'{"metadata":{"name":"r"},"revision":1,"data":{"x":null,"y":1.50,"z":1,"z":2},"unknown":1}'
    decoded = decode_object(body, "", BY_KIND["ControllerRevision"], "Warn")
    assert decoded.warnings == ['unknown field "unknown"']
    assert bytes(decoded.obj.data) == b'{"x":null,"y":1.50,"z":2}'


def test_other_media_types_are_not_supported() -> None:
    with pytest.raises(errors.UnsupportedMediaType) as caught:
        decode_object(b"{}", "application/cbor", BY_KIND["Pod"], "Warn")
    assert caught.value.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_very_deep_json_is_refused(opening: str) -> None:
    assert "exceeded max depth" in refusal('{"unknown":' + opening * 100_000, "Pod")


def test_invalid_utf8_is_replaced() -> None:
    obj = decode_object(b'{"data":{"a":"\xff"}}', "", BY_KIND["ConfigMap"], "Strict").obj
    assert obj.data == {"a": "\ufffd"}


def test_unpaired_surrogate_is_replaced() -> None:
    obj = decode_object(b'{"data":{"a":"\\ud800"}}', "", BY_KIND["ConfigMap"], "Strict").obj
    assert obj.data == {"a": "\ufffd"}


def test_a_document_is_decoded_like_a_body() -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}, "nosuch": 1}
    decoded = decode_document(document, BY_KIND["ConfigMap"], "Warn")
    assert decoded.obj.data == {"a": "1"}
    assert decoded.warnings == ['unknown field "nosuch"']
