"""What can be wrong with a patch, told apart by how the API server answers."""

from __future__ import annotations

from typing import ClassVar


class PatchError(Exception):
    """A patch that could not be applied: the HTTP code, the Status reason and the message a client receives."""

    code: ClassVar[int]
    reason: ClassVar[str]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadPatch(PatchError):
    """The patch is malformed, whatever the object is."""

    code = 400
    reason = "BadRequest"


class PatchTooLarge(PatchError):
    """The patch asks for more work than one request may."""

    code = 413
    reason = "RequestEntityTooLarge"

    def __init__(self, detail: str) -> None:
        super().__init__(f"Request entity too large: {detail}")


class PatchRejected(PatchError):
    """The patch is well-formed and doesn't fit the object; clients get a fixed sentence, `detail` is for people."""

    code = 422
    reason = "Invalid"

    def __init__(self, detail: str) -> None:
        super().__init__("the server rejected our request due to an error in our request")
        self.detail = detail


class PatchFailed(PatchError):
    """A strategic merge patch went wrong on the way; the API server has no better code for it than 500, no reason."""

    code = 500
    reason = ""


def nested_too_deeply() -> BadPatch:
    return BadPatch("invalid JSON patch: nested too deeply")
