# SPDX-License-Identifier: Apache-2.0
"""Paths and operations, in a form from which both OpenAPI versions are written.

Operation IDs and actions are upstream's: generated clients and kubectl depend on them. The deprecated `/watch/` paths
are served but not described.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kubeloop.api.kinds import Resource, Subresource, definition_of
from kubeloop.apiserver.nonresource.openapi.parameters import (
    BY_SUBRESOURCE,
    BY_VERB,
    NAME,
    NAMESPACE,
    PRETTY,
    REST_OF_PATH,
    Parameter,
)

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
PATCH = _META + "Patch"
VERSION_INFO = "io.k8s.apimachinery.pkg.version.Info"
_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_CONNECTED = {"attach", "exec", "portforward", "proxy"}
# Other deletions return a Status.
_DELETION_ANSWERS_OBJECT = {
    "": {
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "services",
    },
    "resource.k8s.io": {"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"},
    "storage.k8s.io": {"csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses"},
}


class OpenAPIOperation(NamedTuple):
    """Method of a path; `takes` and `answers` name definitions, empty for no body and for plain text."""

    method: str
    id: str
    tag: str
    response_definition: str
    statuses: tuple[int, ...] = (200,)
    action: str = ""
    group_version_kind: tuple[str, str, str] | None = None
    parameters: tuple[Parameter, ...] = ()
    request_definition: str = ""
    consumes: tuple[str, ...] = ("application/json",)
    is_body_required: bool = True


class OpenAPIPath(NamedTuple):
    """Path with its parameters and operations."""

    path: str
    parameters: tuple[Parameter, ...]
    operations: tuple[OpenAPIOperation, ...]


class _Verb(NamedTuple):
    """HTTP method, operation ID prefix, x-kubernetes-action and success codes of a verb."""

    method: str
    id: str
    action: str
    statuses: tuple[int, ...] = (200,)


_VERBS = {
    "get": _Verb("get", "read", "get"),
    "list": _Verb("get", "list", "list"),
    "create": _Verb("post", "create", "post", (200, 201, 202)),
    "update": _Verb("put", "replace", "put", (200, 201)),
    "patch": _Verb("patch", "patch", "patch", (200, 201)),
    "delete": _Verb("delete", "delete", "delete", (200, 202)),
    "deletecollection": _Verb("delete", "delete", "deletecollection"),
}


def paths_of(resource: Resource) -> Iterator[OpenAPIPath]:
    """Yield all paths of a resource."""
    scoped = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{_root(resource)}{scoped}/{resource.plural}"
    scope = (NAMESPACE if resource.namespaced else ()) + PRETTY
    if resource.namespaced and "list" in resource.verbs:
        everywhere = _operation(resource, "list", f"{resource.kind}ForAllNamespaces")
        yield OpenAPIPath(f"{_root(resource)}/{resource.plural}", PRETTY, (everywhere,))
    noun = ("Namespaced" if resource.namespaced else "") + resource.kind
    if plural := _operations(resource, noun, ("list", "create", "deletecollection")):
        yield OpenAPIPath(collection, scope, plural)
    if single := _operations(resource, noun, ("get", "update", "patch", "delete")):
        yield OpenAPIPath(collection + "/{name}", NAME + scope, single)
    for subresource in resource.subresources:
        path = f"{collection}/{{name}}/{subresource.name}"
        yield from _subresource_paths(resource, subresource, path, noun + subresource.name.capitalize())


def _subresource_paths(resource: Resource, subresource: Subresource, path: str, noun: str) -> Iterator[OpenAPIPath]:
    named = NAME + (NAMESPACE if resource.namespaced else ())
    extra = BY_SUBRESOURCE.get(subresource.name, ())
    if subresource.name not in _CONNECTED:
        done = tuple(_operation(resource, verb, noun, subresource) for verb in subresource.verbs)
        yield OpenAPIPath(path, named + PRETTY + extra, done)
        return
    connects = tuple(_connect(resource, verb, noun, subresource) for verb in subresource.verbs)
    yield OpenAPIPath(path, named + extra, connects)
    if subresource.name == "proxy":
        deeper = tuple(_connect(resource, verb, noun + "WithPath", subresource) for verb in subresource.verbs)
        yield OpenAPIPath(path + "/{path}", named + REST_OF_PATH + extra, deeper)


def discovery_paths(groups: Mapping[str, Iterable[str]]) -> Iterator[OpenAPIPath]:
    """Yield the discovery paths of groups and their versions."""
    yield _reading("/version/", "getCodeVersion", "version", VERSION_INFO)
    yield _reading("/apis/", "getAPIVersions", "apis", _META + "APIGroupList")
    for group, versions in groups.items():
        root, name = (f"/apis/{group}", _words(group)) if group else ("/api", "core")
        told = "APIGroup" if group else "APIVersions"
        yield _reading(root + "/", f"get{_capital(name)}{told}", name, _META + told)
        for version in versions:
            operation_id = f"get{_capital(name)}{_capital(version)}APIResources"
            yield _reading(f"{root}/{version}/", operation_id, f"{name}_{version}", _META + "APIResourceList")


def definitions_named_in(paths: Iterable[OpenAPIPath]) -> set[str]:
    """Return the definitions that requests and responses of these paths use."""
    operations = (operation for path in paths for operation in path.operations)
    return {
        name
        for operation in operations
        for name in (operation.request_definition, operation.response_definition)
        if name
    }


def _reading(path: str, operation_id: str, tag: str, answers: str) -> OpenAPIPath:
    return OpenAPIPath(path, (), (OpenAPIOperation("get", operation_id, tag, answers),))


def _operations(resource: Resource, noun: str, verbs: Iterable[str]) -> tuple[OpenAPIOperation, ...]:
    return tuple(_operation(resource, verb, noun) for verb in verbs if verb in resource.verbs)


def _operation(resource: Resource, verb: str, noun: str, subresource: Subresource | None = None) -> OpenAPIOperation:
    spoken = _VERBS[verb]
    group_version, kind = _kind_of(resource, subresource)
    own_kind = (group_version, kind) == (resource.group_version, resource.kind)
    definition = resource.definition if own_kind else definition_of(group_version, kind)
    group, _, version = group_version.rpartition("/")
    operation = OpenAPIOperation(
        spoken.method,
        f"{spoken.id}{_title(resource)}{'Collection' if verb == 'deletecollection' else ''}{noun}",
        _tag(resource),
        _answer_of(resource, verb, definition, subresource),
        spoken.statuses,
        spoken.action,
        (group, version, kind),
        BY_VERB.get(verb, ()),
    )
    if verb in ("create", "update"):
        return operation._replace(request_definition=definition)
    if verb == "patch":
        # kubectl chooses its patch type by this; strategic merge needs types that custom resources lack.
        return operation._replace(
            request_definition=PATCH, consumes=_PATCH_TYPES[:3] if resource.is_custom else _PATCH_TYPES
        )
    if verb in ("delete", "deletecollection"):
        return operation._replace(request_definition=_META + "DeleteOptions", is_body_required=False)
    return operation


def _connect(resource: Resource, verb: str, noun: str, subresource: Subresource) -> OpenAPIOperation:
    method = _VERBS[verb].method
    return OpenAPIOperation(
        method,
        f"connect{_title(resource)}{method.capitalize()}{noun}",
        _tag(resource),
        "",
        action="connect",
        group_version_kind=(resource.group, resource.version, subresource.kind),
    )


def _kind_of(resource: Resource, subresource: Subresource | None) -> tuple[str, str]:
    if subresource is None:
        return resource.group_version, resource.kind
    return subresource.group_version or resource.group_version, subresource.kind or resource.kind


def _answer_of(resource: Resource, verb: str, definition: str, subresource: Subresource | None) -> str:
    if subresource and subresource.name == "log":
        return ""
    if verb == "list":
        return definition + "List"
    tells_object = resource.plural in _DELETION_ANSWERS_OBJECT.get(resource.group, ())
    if verb == "deletecollection" or (verb == "delete" and not tells_object):
        return _META + "Status"
    return definition


def _root(resource: Resource) -> str:
    return ("/apis/" if resource.group else "/api/") + resource.group_version


def _tag(resource: Resource) -> str:
    """Return the tag of a resource's group version, such as `rbacAuthorization_v1`."""
    return f"{_words(resource.group) if resource.group else 'core'}_{resource.version}"


def _title(resource: Resource) -> str:
    """Return the unique part of operation IDs of a group version, such as `RbacAuthorizationV1`."""
    return "".join(_capital(part) for part in _tag(resource).split("_"))


def _words(group: str) -> str:
    """Return a group in camel case: `rbac.authorization.k8s.io` is `rbacAuthorization`."""
    first, *rest = re.split(r"[^a-zA-Z0-9]+", group.removesuffix(".k8s.io"))
    return first + "".join(map(_capital, rest))


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]
