"""HTTP path and query of a call."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call

METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


def path_of(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return a path such as `/api/v1/namespaces/x/pods/y/log` or `/apis/apps/v1/deployments`."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    parts = [root]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource.plural)
    if name:
        parts.append(quote(name, safe=":"))
    if subresource:
        parts.append(quote(subresource))
    return "/".join(parts)


def target_of(call: Call) -> str:
    """Return the path with its query."""
    path = path_of(call.resource, call.namespace, call.name, call.subresource)
    options = dict(call.options)
    if call.verb == "watch":
        options["watch"] = "true"
    return f"{path}?{urlencode(options)}" if options else path
