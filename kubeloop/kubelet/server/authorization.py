"""Authorization attributes of kubelet paths: any one of some node subresources is required. Pure."""

from __future__ import annotations

_VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Fine-grained subresources, which suffice besides the coarse ones.
_FINE = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}
_COARSE = {"stats": "stats", "metrics": "metrics", "logs": "log", "checkpoint": "checkpoint", "statusz": "statusz"}


def verb_of(method: str) -> str:
    """Return the verb of an HTTP method; empty for an unknown one."""
    return _VERBS.get(method, "")


def subresources_of(path: str) -> tuple[str, ...]:
    """Return the node subresources of which one is required, the most specific first."""
    first = path.strip("/").split("/")[0]
    if first == "flagz":
        return ("configz",)
    coarse = _COARSE.get(first, "proxy")
    return (_FINE[first], coarse) if first in _FINE else (coarse,)
