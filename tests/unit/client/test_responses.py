# SPDX-License-Identifier: Apache-2.0
"""Answers as objects: structs where there are some, mappings where not."""

from __future__ import annotations

import asyncio
import gc
import sys

import pytest

from kubeloop.api.generated.authentication_v1 import TokenRequest
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call, ListResult, Verb
from kubeloop.api.responses import decode_response
from kubeloop.api.unstructured import PartialObjectMetadata, Unstructured
from kubeloop.client.discovery.rest_mapper import find_built_in, parse_resource
from kubeloop.client.http.messages import decode_large_list
from kubeloop.client.interner import Interner

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")


def call(verb: Verb, what: str | Resource, subresource: str = "", metadata_only: bool = False) -> Call:
    resource = what if isinstance(what, Resource) else find_built_in(parse_resource(what))
    assert resource is not None
    return Call(verb=verb, resource=resource, subresource=subresource, metadata_only=metadata_only)


def test_items_of_custom_lists_get_their_kind() -> None:
    body = b'{"metadata":{"resourceVersion":"9","continue":"c","remainingItemCount":3},"items":[{"metadata":{}}]}'
    found = decode_response(body, call("list", WIDGETS))
    item = Unstructured({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {}})
    assert found == ListResult(items=(item,), resource_version="9", continue_token="c", remaining=3)


def test_a_list_without_items_is_empty() -> None:
    for what in ("configmaps", WIDGETS):
        assert decode_response(b'{"metadata":{"resourceVersion":"9"},"items":null}', call("list", what)).items == ()


@pytest.mark.parametrize("verb", ["create", "delete", "patch"])
def test_kind_of_a_response_decides(verb: Verb) -> None:
    status = b'{"kind":"Status","apiVersion":"v1","status":"Success"}'
    assert decode_response(status, call(verb, "configmaps"))["status"] == "Success"
    body = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}'
    assert decode_response(body, call(verb, "configmaps")) == ConfigMap(metadata=ObjectMeta(name="a"))
    partial = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}'
    found = decode_response(partial, call(verb, "configmaps", metadata_only=True))
    assert found == PartialObjectMetadata(metadata=ObjectMeta(name="a"))


def test_subresources_have_their_own_kinds() -> None:
    body = b'{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"t"}}'
    found = decode_response(body, call("create", "serviceaccounts", "token"))
    assert isinstance(found, TokenRequest)
    assert found.status.token == "t"
    assert decode_response(b'{"kind":"Odd","apiVersion":"x/v1"}', call("get", WIDGETS, "odd"))["kind"] == "Odd"
    assert decode_response(b"", call("create", WIDGETS, "odd")) == {}


def test_a_custom_resource_equals_its_document() -> None:
    document = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}, "spec": {"n": 1}}
    widget = Unstructured(document)
    assert widget == document
    assert widget == Unstructured(dict(document))
    assert (widget.kind, widget.api_version, len(widget)) == ("Widget", "example.com/v1", 4)
    assert widget.metadata is widget.metadata


def test_large_list_decoded_in_slices_is_equal() -> None:
    item = '{"metadata":{"name":"n%d","managedFields":[{"manager":"m","fieldsV1":{"f:x":{}}}]}}'
    items = ",".join(item % number for number in range(1001))
    body = f'{{"metadata":{{"resourceVersion":"9"}},"items":[{items}]}}'.encode()
    wanted = call("list", "configmaps")
    found = asyncio.run(decode_large_list(body, wanted, Interner()))
    assert [one.metadata.name for one in found.items] == [f"n{number}" for number in range(1001)]
    assert found.resource_version == "9"
    assert gc.isenabled()


def test_item_does_not_retain_the_bytes_of_its_list() -> None:
    item = b'{"metadata":{"managedFields":[{"fieldsV1":{"f:x":{}}}]}}'
    body = b'{"metadata":{},"items":[%b]}' % item
    before = sys.getrefcount(body)
    found = decode_response(body, call("list", "configmaps")).items[0]
    assert bytes(found.metadata.managed_fields[0].fields_v1) == b'{"f:x":{}}'
    assert sys.getrefcount(body) == before
