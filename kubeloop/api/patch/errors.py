# SPDX-License-Identifier: Apache-2.0
"""Errors of patches, by the status with which the API server answers."""

from __future__ import annotations

from typing import ClassVar


class PatchError(Exception):
    """Patch that could not be applied: the HTTP code, the Status reason and the message for the client."""

    code: ClassVar[int]
    reason: ClassVar[str]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadPatch(PatchError):
    """Malformed patch, independent of the object."""

    code = 400
    reason = "BadRequest"


class PatchTooLarge(PatchError):
    """Patch that requires more work than one request may cause."""

    code = 413
    reason = "RequestEntityTooLarge"

    def __init__(self, detail: str) -> None:
        super().__init__(f"Request entity too large: {detail}")


class PatchRejected(PatchError):
    """Well-formed patch that does not fit the object; clients get a fixed message, `detail` is for logs."""

    code = 422
    reason = "Invalid"

    def __init__(self, detail: str) -> None:
        super().__init__("the server rejected our request due to an error in our request")
        self.detail = detail


class PatchFailed(PatchError):
    """Strategic merge patch that failed midway; the API server answers with code 500 and no reason."""

    code = 500
    reason = ""


def nesting_error() -> BadPatch:
    """Build the error for a patch that is nested too deeply."""
    return BadPatch("invalid JSON patch: nested too deeply")
