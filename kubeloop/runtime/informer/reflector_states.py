"""Where a reflector stands, as values, and where a failure takes it: the pure half of the state machine.

Empty ──▶ StreamingList ──▶ Watching ◀─┐
            │ refused          │ │     │ event, bookmark, end of a watch: resume
            ▼                  │ └─────┘
          Listing ─────────────┘
            ▲      version gone: relist
BackingOff(then) stands between any two after a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from kubeloop.api.errors import ApiError, Expired, Gone, Timeout, TooManyRequests

# As fresh as can be had cheaply: what a server has in memory, which may be a little old.
ANY_VERSION: Final = "0"
# Nothing older than this moment.
NEWEST: Final = ""


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing was ever fetched."""


@dataclass(frozen=True, slots=True)
class StreamingList:
    """The whole state is about to come as a watch's first events, no older than `at_least`."""

    at_least: str = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Listing:
    """The whole state is about to be listed, no older than `at_least`."""

    at_least: str = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Watching:
    """All that happened up to `version` is in the sink; what happens next is awaited."""

    version: str


@dataclass(frozen=True, slots=True)
class BackingOff:
    """After a failure: nothing is asked for some seconds, then it goes on."""

    seconds: float
    then: StreamingList | Listing | Watching
    error: Exception


State: TypeAlias = Empty | StreamingList | Listing | Watching | BackingOff
Asking: TypeAlias = StreamingList | Listing | Watching


class OutOfOrder(Exception):
    """A watch told of an older version after a newer one: nothing it says can be relied on."""


class Stalled(Exception):
    """A watch that said nothing for so long that it must be taken for dead."""


class CutShort(Exception):
    """A watch that ended at once and without a word."""


def after_failure(state: Asking, error: Exception, delay: Callable[[], float]) -> State:
    """Where to go when what a state asks for has failed."""
    then = _then(state, error)
    if isinstance(error, Stalled) or (is_version_gone(error) and not isinstance(state, Watching)):
        return then  # it has cost time enough; or an answer that asks for another question, no failure of the server
    if isinstance(state, StreamingList) and is_refusal(error):
        return then  # another way is open
    asked = error.retry_after_seconds if isinstance(error, ApiError) else 0
    return BackingOff(max(delay(), float(asked)), then, error)


def _then(state: Asking, error: Exception) -> Asking:
    match state:
        case Watching(version):
            if is_version_gone(error) or isinstance(error, OutOfOrder):
                return StreamingList(version)
            return StreamingList(NEWEST) if is_refusal(error) else state
        case StreamingList(at_least):
            if is_version_gone(error):
                return StreamingList(NEWEST)
            # Whatever else a server or something on the way has against streaming, a plain list may get through.
            return state if isinstance(error, TooManyRequests) else Listing(at_least)
        case Listing():
            return Listing(NEWEST) if is_version_gone(error) else state


def is_version_gone(error: Exception) -> bool:
    """The asked version is too old, or the server doesn't know it yet and may never."""
    if isinstance(error, Expired | Gone):
        return True
    return isinstance(error, Timeout) and any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)


def is_refusal(error: Exception) -> bool:
    """The server understood, and won't; asking the same again is of no use before something else changes."""
    if not isinstance(error, ApiError) or is_version_gone(error):
        return False
    return 400 <= error.code < 500 and not isinstance(error, TooManyRequests)
