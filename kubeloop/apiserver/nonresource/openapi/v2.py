# SPDX-License-Identifier: Apache-2.0
"""OpenAPI v2: one document for everything that is served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from kubeloop.apiserver.nonresource.openapi.parameters import Parameter
from kubeloop.apiserver.nonresource.openapi.paths import OpenAPIOperation, OpenAPIPath
from kubeloop.apiserver.nonresource.openapi.schemas import V2_PREFIX, Schema, v2_schema

_PRODUCES = ["application/json", "application/yaml"]


def v2_document(
    paths: Iterable[OpenAPIPath], definitions: Mapping[str, Schema], info: Mapping[str, str]
) -> dict[str, Any]:
    """Return the document as a tree, ready for either encoding."""
    return {
        "swagger": "2.0",
        "info": info,
        "paths": {path.path: _path_item(path) for path in paths},
        "definitions": {name: v2_schema(schema) for name, schema in definitions.items()},
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
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
        "produces": _PRODUCES if operation.response_definition else ["*/*"],
        "responses": _responses(operation),
    }
    parameters = [_parameter(parameter) for parameter in operation.parameters]
    if operation.request_definition:
        written["consumes"] = operation.consumes
        parameters.insert(0, _body(operation))
    if parameters:
        written["parameters"] = parameters
    if operation.action:
        written["x-kubernetes-action"] = operation.action
    if operation.group_version_kind:
        written["x-kubernetes-group-version-kind"] = dict(
            zip(("group", "version", "kind"), operation.group_version_kind, strict=True)
        )
    return written


def _parameter(parameter: Parameter) -> dict[str, Any]:
    written: dict[str, Any] = {"name": parameter.name, "in": parameter.place, "type": parameter.type}
    return written | ({"required": True} if parameter.place == "path" else {})


def _body(operation: OpenAPIOperation) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": "body",
        "in": "body",
        "schema": {"$ref": V2_PREFIX + operation.request_definition},
    }
    return written | ({"required": True} if operation.is_body_required else {})


def _responses(operation: OpenAPIOperation) -> dict[str, Any]:
    schema = (
        {"$ref": V2_PREFIX + operation.response_definition} if operation.response_definition else {"type": "string"}
    )
    written: dict[str, Any] = {
        str(status): {"description": HTTPStatus(status).phrase, "schema": schema} for status in operation.statuses
    }
    return written | {"401": {"description": HTTPStatus.UNAUTHORIZED.phrase}}
