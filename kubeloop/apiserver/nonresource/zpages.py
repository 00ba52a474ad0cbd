# SPDX-License-Identifier: Apache-2.0
"""`/flagz` and `/statusz` of every component: plain text for people, and the structured form of config.k8s.io."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from kubeloop import KUBERNETES_VERSION
from kubeloop.api import errors
from kubeloop.api.scalars.times import format_time
from kubeloop.apiserver.request.negotiation import parse_accept
from kubeloop.http import Response

_GROUP: Final = "config.k8s.io"
_VERSIONS: Final = ("v1beta1", "v1alpha1")
_DEPRECATED: Final = ("v1alpha1",)
_STRUCTURED: Final = ("application/json", "application/yaml")
_TEXT: Final = "text/plain; charset=utf-8"
_HEADER: Final = (
    "\n{component} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only.\n"
)
_NO_DEBUG_PATHS: Final = frozenset(("/api", "/apis", "/openid", "/openapi", "/.well-known"))


def flagz_response(component: str, flags: Mapping[str, str], accept: str) -> Response:
    """Return the values of a component's flags."""
    form = _negotiate("Flagz", accept)
    if form is not None:
        return _structured("flagz", form, {"metadata": {"name": component}, "flags": dict(sorted(flags.items()))})
    lines = "".join(f"{name}={value}\n" for name, value in sorted(flags.items()))
    return _text("flagz", component, lines)


def statusz_response(component: str, started: datetime, now: datetime, paths: Iterable[str], accept: str) -> Response:
    """Return versions, start time and debug paths of a component."""
    form, folders = _negotiate("Statusz", accept), debug_folders(paths)
    up = max(0, int((now - started).total_seconds()))
    minor = KUBERNETES_VERSION.rpartition(".")[0]
    runtime = f"python{platform.python_version()}"
    if form is not None:
        content = {
            "metadata": {"name": component},
            "startTime": format_time(started),
            "uptimeSeconds": up,
            "goVersion": runtime,
            "binaryVersion": KUBERNETES_VERSION,
            "emulationVersion": minor,
            "paths": folders,
        }
        return _structured("statusz", form, content)
    body = (
        f"\nStarted: {started:%a %b %e %H:%M:%S UTC %Y}\n"
        f"Up: {up // 3600} hr {up // 60 % 60:02} min {up % 60:02} sec\n"
        f"Go version: {runtime}\nBinary version: {KUBERNETES_VERSION}\nEmulation version: {minor}\n"
    )
    return _text("statusz", component, body + (f"Paths: {' '.join(folders)}\n" if folders else "\n"))


def debug_folders(paths: Iterable[str]) -> list[str]:
    """Return the first segments of paths, without those of the API itself."""
    first = {"/" + path.split("/")[1] for path in paths if path.startswith("/") and path != "/"}
    return sorted(first - _NO_DEBUG_PATHS)


def _negotiate(kind: str, accept: str) -> tuple[str, str] | None:
    """Return media type and version of the structured form, None for text; raises NotAcceptable."""
    for media, parameters in parse_accept(accept.strip() or "*/*"):
        version = parameters.get("v", "")
        named = (parameters.get("g", ""), parameters.get("as", ""))
        if media in _STRUCTURED and named == (_GROUP, kind) and version in _VERSIONS:
            return media, version
        if media in ("text/plain", "text/*", "*/*") and "as" not in parameters:
            return None
    raise errors.not_acceptable((*_STRUCTURED, "text/plain"))


def _structured(page: str, form: tuple[str, str], content: dict[str, Any]) -> Response:
    media, version = form
    document = {"kind": page.capitalize(), "apiVersion": f"{_GROUP}/{version}", **content}
    warning = f'299 - "This version of the {page} endpoint is deprecated. Please use a newer version."'
    headers = (("Warning", warning),) if version in _DEPRECATED else ()
    if media == "application/json":
        return Response(200, msgspec.json.encode(document), media, headers)
    import yaml

    return Response(200, yaml.safe_dump(document, default_flow_style=False).encode(), media, headers)


def _text(page: str, component: str, body: str) -> Response:
    return Response(200, (_HEADER.format(component=component, page=page) + body).encode(), _TEXT)
