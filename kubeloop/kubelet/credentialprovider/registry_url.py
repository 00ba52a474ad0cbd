# SPDX-License-Identifier: Apache-2.0
"""Registry URLs without scheme, and their patterns: labels of the host may have wildcards. Pure."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import unquote

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}")
_BAD_HOST_CHARACTER = re.compile(r"[ #%/?@\\^`{|}]")


class RegistryUrlError(ValueError):
    """Raised for a malformed URL."""


class RegistryUrl(NamedTuple):
    """Host with port, and path, of a registry or image."""

    host: str
    path: str

    @property
    def labels(self) -> list[str]:
        """Labels of the host name."""
        return self._host_and_port()[0].split(".")

    @property
    def port(self) -> str:
        """Port, empty if the URL has none."""
        return self._host_and_port()[1]

    def _host_and_port(self) -> tuple[str, str]:
        if self.host.startswith("[") and "]:" in self.host:
            name, _, port = self.host[1:].partition("]:")
            return name, port
        name, _, port = self.host.partition(":")
        return (self.host, "") if ":" in port else (name, port)


def parse_registry_url(text: str) -> RegistryUrl:
    """Parse a URL without scheme. Raises `RegistryUrlError`."""
    try:
        return _parse(text)
    except RegistryUrlError as error:
        raise RegistryUrlError(f'parse "https://{text}": {error}') from None


def is_match(pattern: str, target: str) -> bool:
    """Return True if host and port match and the path begins with that of the pattern; False for malformed ones."""
    try:
        wanted, found = _parse(pattern), _parse(target)
    except RegistryUrlError:
        return False
    if wanted.port != found.port or len(wanted.labels) != len(found.labels):
        return False
    if not found.path.startswith(wanted.path):
        return False
    return all(map(_is_label_match, found.labels, wanted.labels))


def _is_label_match(label: str, pattern: str) -> bool:
    return fnmatchcase(label, pattern.replace("[^", "[!"))


def _parse(text: str) -> RegistryUrl:
    if _CONTROL.search(text):
        raise RegistryUrlError("net/url: invalid control character in URL")
    text = text.partition("#")[0].partition("?")[0]
    authority, slash, rest = text.partition("/")
    host = authority.rpartition("@")[2]
    if found := _BAD_HOST_CHARACTER.search(host):
        raise RegistryUrlError(f'invalid character "{found.group()}" in host name')
    _check_port(host)
    path = f"{slash}{rest}"
    if found := _BAD_ESCAPE.search(path):
        raise RegistryUrlError(f'invalid URL escape "{found.group()}"')
    return RegistryUrl(host, unquote(path))


def _check_port(host: str) -> None:
    if host.startswith("["):
        _, closed, port = host.rpartition("]")
        if not closed:
            raise RegistryUrlError("missing ']' in host")
    else:
        _, colon, number = host.rpartition(":")
        port = f"{colon}{number}" if colon else ""
    if port and not (port[0] == ":" and all(one in "0123456789" for one in port[1:])):
        raise RegistryUrlError(f'invalid port "{port}" after host')
