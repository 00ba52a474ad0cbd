"""HTTP/1.1 requests as bytes and heads of responses; pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote

from kubeloop.api import codec
from kubeloop.api.requests import Call
from kubeloop.api.unstructured import body_document
from kubeloop.client.errors import UsageError
from kubeloop.client.paths import METHODS, target_of

CAUSE_HEADER = "Kubeloop-Cause"

_JSON = "application/json"
_PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_MAX_CAUSE = 2048
_WARNING = re.compile(r'\s*299 \S+ "((?:[^"\\]|\\.)*)"(?:\s+"[^"]*")?\s*,?')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Head:
    """Head of a response; names in lower case, values of a repeated name joined with commas."""

    status: int
    headers: Mapping[str, str]

    @property
    def is_success(self) -> bool:
        """True if the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def retry_after(self) -> int:
        """Seconds of Retry-After; dates are not understood, as in client-go."""
        text = self.headers.get("retry-after", "").strip()
        return int(text) if text.isascii() and text.isdigit() else 0

    def warnings(self) -> Iterable[str]:
        """Texts of the Warning headers."""
        text = self.headers.get("warning", "")
        return [_ESCAPED.sub(r"\1", found) for found in _WARNING.findall(text)] if text else ()


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """Request before encoding; credentials are added for every attempt."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    guard: Callable[[], None] | None = None

    def encode(self, more: Iterable[tuple[str, str]]) -> bytes:
        """Return the bytes on the wire. Raises `UsageError` for header values that would break the framing."""
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        for name, value in (*self.headers.items(), *more):
            if "\n" in value or "\r" in value or "\0" in value:
                raise UsageError(f"the value of header {name} contains a line break")
            lines.append(f"{name}: {value}")
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + self.body

    def below(self, prefix: str) -> HttpRequest:
        """Return the same request below a path prefix."""
        return replace(self, target=prefix + self.target)


def request_of(call: Call) -> HttpRequest:
    """Convert a call to an HTTP request, without host and credentials, which the connection adds."""
    headers = {"Accept": _accept(call), "User-Agent": call.user_agent}
    body = b""
    if call.body is not None:
        body = call.body if isinstance(call.body, bytes) else codec.encode(body_document(call.body))
        headers["Content-Type"] = call.patch_type or _JSON
    if call.cause:
        headers[CAUSE_HEADER] = quote(call.cause, safe=" /:;,=@()[]{}")[:_MAX_CAUSE]
    return HttpRequest(METHODS[call.verb], target_of(call), headers, body, call.guard)


def _accept(call: Call) -> str:
    if call.subresource == "log":
        return "*/*"
    if call.metadata_only:
        return _PARTIAL_LIST if call.verb == "list" else _PARTIAL
    return _JSON
