# SPDX-License-Identifier: Apache-2.0
"""Routing: maps method and path to resource, object, subresource and verb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

from kubeloop.api import errors
from kubeloop.api.kinds import Resource

_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_SUBRESOURCE_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "POST": "create", "DELETE": "delete"}


class Target(NamedTuple):
    """Target of a resource request; `verb` is empty if the method is not supported there."""

    resource: Resource
    verb: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    proxy_path: str = ""  # path after the proxy subresource
    watch_path: bool = False  # deprecated /watch/ prefix


class PageNotFound(Exception):
    """Error for a path of no API group; answered in plain text, as upstream does."""


class MissingSubresource(errors.NotFound):
    """Error for a subresource that a custom resource does not declare, with the warnings of its version."""

    def __init__(self, resource: Resource, name: str) -> None:
        error = errors.not_found(resource.group, resource.plural, name)
        super().__init__(error.message, error.details)
        self.warnings = (resource.deprecation,) if resource.deprecation else ()


class NotServed(Exception):
    """Error for a resource that no served version has."""


class Router:
    """Finds the targets of request paths among the served resources."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._tables: dict[tuple[str, str], dict[str, Resource]] = {}
        for resource in resources:
            self._tables.setdefault((resource.group, resource.version), {})[resource.plural] = resource
        self._groups = {group for group, _ in self._tables}
        # Groups without built-in resources: an unserved resource is a plain-text 404 there, as upstream does.
        self._custom_groups = self._groups - {one.group for one in resources if not one.is_custom}

    def find(self, method: str, path: str) -> Target:
        """Return the target of `/api/…` or `/apis/…`.

        Raises an API error, or `PageNotFound` for an unknown group.
        """
        parts = path.split("/")
        if parts[1] == "api":
            table, rest = self._tables.get(("", parts[2])), parts[3:]
        else:
            group = parts[2]
            if group not in self._groups or not group:
                raise PageNotFound
            table, rest = self._tables.get((group, parts[3])), parts[4:]
        if rest and not rest[-1]:
            rest.pop()
        if table is None or not rest:
            raise PageNotFound if self.is_custom_group(parts) else errors.generic_server_response(404)
        watch_path = rest[0] == "watch" and len(rest) > 1
        if watch_path:
            rest = rest[1:]
        try:
            return _target(table, method, [unquote(part) for part in rest] if "%" in path else rest, watch_path)
        except NotServed:
            raise PageNotFound if self.is_custom_group(parts) else errors.generic_server_response(404) from None

    def is_custom_group(self, parts: list[str]) -> bool:
        """Return True if a path, split at its slashes, belongs to a group that has custom resources only."""
        return parts[1] == "apis" and parts[2] in self._custom_groups


def _target(table: dict[str, Resource], method: str, parts: list[str], watch_path: bool) -> Target:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and not _is_namespace_subresource(table, parts):
        namespace, parts = parts[1], parts[2:]
    resource = table.get(parts[0])
    if resource is None or (namespace and not resource.namespaced):
        raise NotServed
    if len(parts) == 1:
        return Target(resource, _collection_verb(resource, method, namespace), namespace, watch_path=watch_path)
    if resource.namespaced and not namespace:
        raise NotServed
    name = parts[1]
    if name in (".", "..") or "/" in name or "%" in name:
        raise errors.bad_request(f'Name parameter invalid: "{name}": {_invalid_name_reason(name)}')
    if len(parts) == 2:
        verb = _OBJECT_VERBS.get(method, "")
        if not resource.is_stored and not (verb == "get" and "get" in resource.verbs):
            raise errors.generic_server_response(
                404 if "create" in resource.verbs and "get" not in resource.verbs else 405
            )
        return Target(resource, _allowed(verb, resource.verbs), namespace, name, watch_path=watch_path)
    subresource = resource.by_name.get(parts[2])
    if subresource is None or (len(parts) > 3 and subresource.name != "proxy"):
        if resource.is_custom:
            raise MissingSubresource(resource, name)
        raise errors.generic_server_response(404)
    verb = _allowed(_SUBRESOURCE_VERBS.get(method, ""), subresource.verbs)
    return Target(resource, verb, namespace, name, subresource.name, "/".join(parts[3:]))


def _is_namespace_subresource(table: dict[str, Resource], parts: list[str]) -> bool:
    namespaces = table.get("namespaces")
    return len(parts) == 3 and namespaces is not None and parts[2] in namespaces.by_name


def _collection_verb(resource: Resource, method: str, namespace: str) -> str:
    verb = _allowed(_COLLECTION_VERBS.get(method, ""), resource.verbs)
    # Across all namespaces, objects can only be read.
    if resource.namespaced and not namespace and verb != "list":
        return ""
    return verb


def _allowed(verb: str, verbs: tuple[str, ...]) -> str:
    return verb if verb in verbs else ""


def _invalid_name_reason(name: str) -> str:
    if name in (".", ".."):
        return f"may not be '{name}'"
    return f"may not contain '{'/' if '/' in name else '%'}'"
