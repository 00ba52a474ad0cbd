# SPDX-License-Identifier: Apache-2.0
"""URL library, with the syntax of Go's net/url."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import parse_qs, unquote
from urllib.parse import quote as escaped

from kubeloop.api.cel.check.types import BOOL, STRING, Type, list_of, map_of, opaque
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.declarations import argument_traversal_cost, function, method
from kubeloop.api.cel.values import CelError
from kubeloop.api.meta.field_path import quote

URL: Final = opaque("kubernetes.URL")
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_HOST_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]")
_USER_CHARACTERS: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PATH_SAFE: Final = "/-_.~$&+,:;=@!'()*[]"
_PATH_CHARACTERS: Final = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=@!'()*%\[\]]*")


class UrlError(ValueError):
    """Raised for a text that is no URL; the message is Go's."""


@dataclass(frozen=True, slots=True)
class CelUrl:
    """Parsed URL."""

    text: str
    scheme: str = ""
    host: str = ""
    path: str = ""
    query: str = ""
    cel_type: ClassVar[Type] = URL

    @property
    def hostname(self) -> str:
        """Host without port and brackets."""
        if self.host.startswith("["):
            return self.host[1:].partition("]")[0]
        return self.host.partition(":")[0]

    @property
    def port(self) -> str:
        """Port as text; empty if there is none."""
        rest = self.host.rpartition("]")[2]
        return rest.rpartition(":")[2] if ":" in rest else ""

    @property
    def escaped_path(self) -> str:
        """Path with percent-encoding."""
        if _PATH_CHARACTERS.fullmatch(self.path):
            return self.path
        return escaped(unquote(self.path), safe=_PATH_SAFE)


def check_request_uri(text: str) -> None:
    """Validate an absolute URI or an absolute path; raises UrlError."""
    _read(text, is_request=True)


def parse_cel_url(text: str) -> CelUrl:
    """Parse a URL; raises CelError."""
    try:
        check_request_uri(text)
        return _read(text, is_request=False)
    except UrlError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None


def _read(text: str, is_request: bool) -> CelUrl:
    without_fragment = text if is_request else text.partition("#")[0]
    try:
        return _parts(text, without_fragment, is_request)
    except UrlError as error:
        raise UrlError(f"parse {quote(text)}: {error}") from None


def _parts(text: str, rest: str, is_request: bool) -> CelUrl:
    if _CONTROL.search(rest):
        raise UrlError("net/url: invalid control character in URL")
    if is_request and not rest:
        raise UrlError("empty url")
    if rest == "*":
        return CelUrl(text, path="*")
    if rest.startswith(":"):
        raise UrlError("missing protocol scheme")
    found = _SCHEME.match(rest)
    scheme, rest = (found[1].lower(), rest[found.end() :]) if found else ("", rest)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return CelUrl(text, scheme, query=query)  # what follows the scheme is opaque
        if is_request:
            raise UrlError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    host = ""
    if rest.startswith("//") and (scheme or (not is_request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(authority), slash + path
    _check_escapes(rest)
    return CelUrl(text, scheme, host, rest, query)


def _host(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and not _USER_CHARACTERS.fullmatch(user):
        raise UrlError("net/url: invalid userinfo")
    _check_escapes(user)
    if host.startswith("["):
        inside, closed, port = host.partition("]")
        if not closed:
            raise UrlError("missing ']' in host")
    else:
        inside, colon, port = host.partition(":")
        port = colon + port
    if not _PORT.fullmatch(port):
        raise UrlError(f"invalid port {quote(port)} after host")
    if wrong := _HOST_CHARACTERS.search(host):
        raise UrlError(f"invalid character {quote(wrong[0])} in host name")
    _check_escapes(inside)
    return unquote(host)


def _check_escapes(text: str) -> None:
    if wrong := _BAD_ESCAPE.search(text):
        raise UrlError(f"invalid URL escape {quote(wrong[0])}")


def _is_url(text: str) -> bool:
    try:
        _parts(text, text, is_request=True)
    except UrlError:
        return False
    return True


def _query(one: CelUrl) -> dict[str, list[str]]:
    return parse_qs(one.query, keep_blank_values=True)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "url": (function("string_to_url", (STRING,), URL, parse_cel_url, argument_traversal_cost(0)),),
    "getScheme": (method("url_get_scheme", (URL,), STRING, lambda one: one.scheme),),
    "getHost": (method("url_get_host", (URL,), STRING, lambda one: one.host),),
    "getHostname": (method("url_get_hostname", (URL,), STRING, lambda one: one.hostname),),
    "getPort": (method("url_get_port", (URL,), STRING, lambda one: one.port),),
    "getEscapedPath": (method("url_get_escaped_path", (URL,), STRING, lambda one: one.escaped_path),),
    "getQuery": (method("url_get_query", (URL,), map_of(STRING, list_of(STRING)), _query),),
    "isURL": (function("is_url_string", (STRING,), BOOL, _is_url),),
}
