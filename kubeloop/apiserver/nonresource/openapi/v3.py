# SPDX-License-Identifier: Apache-2.0
"""OpenAPI v3: one document per group version, and an index of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from kubeloop.apiserver.nonresource.openapi.parameters import Parameter
from kubeloop.apiserver.nonresource.openapi.paths import OpenAPIOperation, OpenAPIPath
from kubeloop.apiserver.nonresource.openapi.schemas import V3_PREFIX, Schema, v3_schema

_PRODUCES = ("application/json", "application/yaml")


def v3_index(digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the index of documents; the digest in each link lets clients cache a document forever."""
    return {"paths": {name: {"serverRelativeURL": link_to(name, digest)} for name, digest in digests.items()}}


def link_to(name: str, digest: str) -> str:
    """Return the link of a document."""
    return f"/openapi/v3/{name}?hash={digest}"


def v3_document(
    paths: Iterable[OpenAPIPath], definitions: Mapping[str, Schema], info: Mapping[str, str]
) -> dict[str, Any]:
    """Return the document of these paths as a tree, ready to be encoded."""
    return {
        "openapi": "3.0.0",
        "info": info,
        "paths": {path.path: _path_item(path) for path in paths},
        "components": {
            "schemas": {name: v3_schema(schema, name) for name, schema in definitions.items()},
            "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        },
    }


def _path_item(path: OpenAPIPath) -> dict[str, Any]:
    item: dict[str, Any] = {operation.method: _operation(operation) for operation in path.operations}
    if path.parameters:
        item["parameters"] = [_parameter(parameter) for parameter in path.parameters]
    return item


def _operation(operation: OpenAPIOperation) -> dict[str, Any]:
    written: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "responses": _responses(operation),
    }
    if operation.parameters:
        written["parameters"] = [_parameter(parameter) for parameter in operation.parameters]
    if operation.request_definition:
        written["requestBody"] = _request_body(operation)
    if operation.action:
        written["x-kubernetes-action"] = operation.action
    if operation.group_version_kind:
        written["x-kubernetes-group-version-kind"] = dict(
            zip(("group", "version", "kind"), operation.group_version_kind, strict=True)
        )
    return written


def _parameter(parameter: Parameter) -> dict[str, Any]:
    written: dict[str, Any] = {"name": parameter.name, "in": parameter.place, "schema": {"type": parameter.type}}
    return written | ({"required": True} if parameter.place == "path" else {})


def _request_body(operation: OpenAPIOperation) -> dict[str, Any]:
    written: dict[str, Any] = {"content": _content(operation.consumes, operation.request_definition)}
    return written | ({"required": True} if operation.is_body_required else {})


def _responses(operation: OpenAPIOperation) -> dict[str, Any]:
    content = _content(_PRODUCES if operation.response_definition else ("*/*",), operation.response_definition)
    written: dict[str, Any] = {
        str(status): {"description": HTTPStatus(status).phrase, "content": content} for status in operation.statuses
    }
    return written | {"401": {"description": HTTPStatus.UNAUTHORIZED.phrase}}


def _content(media_types: Iterable[str], definition: str) -> dict[str, Any]:
    schema = {"$ref": V3_PREFIX + definition} if definition else {"type": "string"}
    return {media_type: {"schema": schema} for media_type in media_types}
