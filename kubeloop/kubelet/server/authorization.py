"""Which rights somebody needs for a kubelet's paths: any one of a few subresources of the node. Pure."""

from __future__ import annotations

_VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# The finer rights, which suffice beside the coarse ones.
_FINE = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}
_COARSE = {"stats": "stats", "metrics": "metrics", "logs": "log", "checkpoint": "checkpoint", "statusz": "statusz"}


def verb_of(method: str) -> str:
    """The verb of a method; empty for one that has none."""
    return _VERBS.get(method, "")


def subresources_of(path: str) -> tuple[str, ...]:
    """The subresources of which one is needed, the finest first."""
    first = path.strip("/").split("/")[0]
    if first == "flagz":
        return ("configz",)
    coarse = _COARSE.get(first, "proxy")
    return (_FINE[first], coarse) if first in _FINE else (coarse,)
