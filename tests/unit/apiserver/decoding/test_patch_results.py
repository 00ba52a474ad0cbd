# SPDX-License-Identifier: Apache-2.0
"""Tests of errors about patched documents."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import errors
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.decoding import decode_document
from kubeloop.apiserver.decoding.go_shapes import shape_of
from kubeloop.apiserver.decoding.unstructured_converter import conversion_error
from kubeloop.apiserver.handlers.patch import (
    JSON_PATCH,
    MERGE_PATCH,
    after_merge,
    after_operations,
    apply_patch,
    patch_decode_errors,
)

STRATEGIC = "application/strategic-merge-patch+json"
DEPLOYMENT = next(resource for resource in RESOURCES if resource.kind == "Deployment")
LIVE: dict[str, Any] = {
    "kind": "Deployment",
    "apiVersion": "apps/v1",
    "metadata": {"name": "d", "labels": {"b": "1", "a": "2"}},
    "spec": {"replicas": 1, "paused": True},
}


def patch_refusal(media: str, patch: Any, mode: str = "Warn") -> str:
    patched = apply_patch(media, LIVE, patch, DEPLOYMENT)
    with pytest.raises(errors.Invalid) as caught, patch_decode_errors(media, patch, lambda: patched):
        decode_document(patched, DEPLOYMENT, mode)
    return caught.value.causes[0].message


def test_merge_patch_error_shows_the_patched_document() -> None:
    assert patch_refusal(MERGE_PATCH, {"spec": {"replicas": "x"}}) == (
        r'Invalid value: "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"d\",'
        r'\"labels\":{\"b\":\"1\",\"a\":\"2\"}},\"spec\":{\"paused\":true,\"replicas\":\"x\"}}": '
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
    )


def test_json_patch_error_shows_the_patched_document() -> None:
    patch = [{"op": "replace", "path": "/kind", "value": "Nosuch"}]
    assert patch_refusal(JSON_PATCH, patch).endswith(
        'no kind "Nosuch" is registered for version "apps/v1" in scheme "pkg/api/legacyscheme/scheme.go:30"'
    )


def test_strategic_patch_error_shows_the_patch_in_the_converters_words() -> None:
    assert patch_refusal(STRATEGIC, {"spec": {"replicas": "x"}}) == (
        'Invalid value: "map[spec:map[replicas:x]]": unrecognized type: int32'
    )
    assert patch_refusal(STRATEGIC, {"spec": {"z": 1, "y": 1}}, "Strict").endswith(
        'strict decoding error: unknown field "spec.y", unknown field "spec.z"'
    )


def test_a_strategic_patch_cannot_change_the_kind() -> None:
    patched = apply_patch(STRATEGIC, LIVE, {"kind": "Pod"}, DEPLOYMENT)
    assert decode_document(patched, DEPLOYMENT, "Strict").obj.kind == "Deployment"


def test_a_merge_patch_may_name_another_version_of_the_kind() -> None:
    patched = apply_patch(MERGE_PATCH, LIVE, {"apiVersion": "apps/v1beta1"}, DEPLOYMENT)
    assert decode_document(patched, DEPLOYMENT, "Strict").obj.api_version == "apps/v1"


def test_objects_changed_by_a_patch_are_shown_sorted() -> None:
    document = {"b": {"d": {"z": 1, "y": 2}, "c": 1}, "a": {"y": 1, "x": 2}, "l": [{"q": 1, "p": 2}]}
    assert str(after_merge(document, {"b": {"c": 1}})) == (
        "{'a': {'y': 1, 'x': 2}, 'b': {'c': 1, 'd': {'z': 1, 'y': 2}}, 'l': [{'q': 1, 'p': 2}]}"
    )
    operations = [{"op": "add", "path": "/l/0/p", "value": 2}]
    assert str(after_operations(document, operations)) == (
        "{'a': {'y': 1, 'x': 2}, 'b': {'d': {'z': 1, 'y': 2}, 'c': 1}, 'l': [{'p': 2, 'q': 1}]}"
    )


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"spec": {"containers": {}}}, "cannot restore slice from map"),
        ({"spec": "x"}, "cannot restore struct from: string"),
        ({"metadata": {"labels": []}}, "cannot restore map from slice"),
        ({"metadata": {"labels": {"a": 1}}}, "cannot convert int64 to string"),
        ({"metadata": {"name": True}}, "unrecognized type: string"),
        ({"metadata": {"generation": 1.5}}, "cannot convert float64 to int64"),
        ({"metadata": {"generation": "1"}}, "unrecognized type: int64"),
        ({"spec": {"hostNetwork": 1}}, "unrecognized type: bool"),
        ({"metadata": {"creationTimestamp": 5}}, "json: cannot unmarshal number into Go value of type string"),
        ({"metadata": {"generation": 2.0, "labels": None, "managedFields": [{"fieldsV1": {"a": 1}}]}}, ""),
    ],
)
def test_converter_names_unconvertible_fields(document: dict[str, Any], why: str) -> None:
    assert conversion_error(document, shape_of("io.k8s.api.core.v1.Pod")) == why


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1])
def test_the_converter_refuses_numbers_beyond_32_bits_where_text_is_allowed(number: int) -> None:
    document = {"spec": {"strategy": {"rollingUpdate": {"maxSurge": number}}}}
    said = conversion_error(document, shape_of("io.k8s.api.apps.v1.Deployment"))
    assert said == f"json: cannot unmarshal number {number} into Go value of type int32"


def test_the_converter_reads_base64_through_json() -> None:
    said = conversion_error({"data": {"a": "%"}}, shape_of("io.k8s.api.core.v1.Secret"))
    assert said == "error decoding from json: illegal base64 data at input byte 0"
