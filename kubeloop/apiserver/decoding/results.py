# SPDX-License-Identifier: Apache-2.0
"""Results of decoding: an object with warnings, or an error with upstream's message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.decoding.go_json import decode_text
from kubeloop.apiserver.decoding.type_meta import TypeMeta

_ECHO_LENGTH: Final = 30


class DecodedObject(NamedTuple):
    """Decoded object and warnings."""

    obj: Any
    warnings: list[str]


class StrictError(ValueError):
    """Error for unknown or duplicate fields under strict field validation."""

    def __init__(self, found: Sequence[str]) -> None:
        super().__init__("strict decoding error: " + ", ".join(found))
        self.found = tuple(found)


def cannot_handle_error(meta: TypeMeta, resource: Resource, why: str) -> errors.BadRequest:
    """Return the BadRequest error for a body that does not decode as the resource's kind."""
    return errors.bad_request(f'{meta.kind} in version "{meta.version}" cannot be handled as a {resource.kind}: {why}')


def unrecognized_error(why: str, body: bytes, resource: Resource) -> errors.BadRequest:
    """Return the BadRequest error for a body whose kind is not recognizable."""
    return errors.bad_request(
        f"the object provided is unrecognized (must be of type {resource.kind}): {why} ({_echo(body)})"
    )


def _echo(body: bytes) -> str:
    """Return the beginning of a body, in hexadecimal if it doesn't look like JSON."""
    if not body:
        return "<empty>"
    shown = decode_text(body[:_ECHO_LENGTH]) if body[:1] == b"{" else body[:_ECHO_LENGTH].hex()
    return shown + " ..." if len(body) > _ECHO_LENGTH else shown
