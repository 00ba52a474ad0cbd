# SPDX-License-Identifier: Apache-2.0
"""States of a reflector as values, and the transition after a failure: the pure half of the state machine.

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
from kubeloop.client.errors import ConnectError

# As fresh as can be had cheaply: what a server has in memory, which may be a little old.
ANY_VERSION: Final = "0"
# Nothing older than this moment.
NEWEST: Final = ""
# After these a list would fail as the stream did.
_OVERLOADED: Final = (TooManyRequests, ConnectError)


@dataclass(frozen=True, slots=True)
class InitialState:
    """Initial state: nothing was fetched."""


@dataclass(frozen=True, slots=True)
class StreamingListState:
    """State that receives the whole state as a watch's first events, no older than `at_least`."""

    at_least: str = ANY_VERSION


@dataclass(frozen=True, slots=True)
class ListState:
    """State that lists everything, no older than `at_least`."""

    at_least: str = ANY_VERSION


@dataclass(frozen=True, slots=True)
class WatchState:
    """State that waits for events after `version`; all earlier ones are in the sink."""

    version: str


@dataclass(frozen=True, slots=True)
class BackoffState:
    """State after a failure: waits some seconds, then goes on."""

    seconds: float
    then: StreamingListState | ListState | WatchState
    error: Exception


State: TypeAlias = InitialState | StreamingListState | ListState | WatchState | BackoffState
Asking: TypeAlias = StreamingListState | ListState | WatchState


class OutOfOrderError(Exception):
    """Watch event with an older version after a newer one: the watch cannot be trusted."""


class WatchStalled(Exception):
    """Watch that was silent for so long that it counts as dead."""


class WatchEndedEarly(Exception):
    """Watch that ended at once without any event."""


def next_state_after_failure(state: Asking, error: Exception, delay: Callable[[], float]) -> State:
    """Return the next state after a failure."""
    then = _then(state, error)
    if isinstance(error, WatchStalled) or (is_version_gone(error) and not isinstance(state, WatchState)):
        return then  # no backoff: it has already taken time; or the answer requires another request and is no failure
    if isinstance(state, StreamingListState) and not isinstance(error, _OVERLOADED):
        return then  # fall back to a plain list; if that fails too, it backs off
    asked = error.retry_after_seconds if isinstance(error, ApiError) else 0
    return BackoffState(max(delay(), float(asked)), then, error)


def _then(state: Asking, error: Exception) -> Asking:
    match state:
        case WatchState(version):
            if is_version_gone(error) or isinstance(error, OutOfOrderError):
                return StreamingListState(version)
            return StreamingListState(NEWEST) if is_refusal(error) else state
        case StreamingListState(at_least):
            if is_version_gone(error):
                return StreamingListState(NEWEST)
            # A plain list may succeed where the server, its storage or a proxy rejects streaming.
            return state if isinstance(error, _OVERLOADED) else ListState(at_least)
        case ListState():
            return ListState(NEWEST) if is_version_gone(error) else state


def is_version_gone(error: Exception) -> bool:
    """Return True if the requested version is too old, or unknown to the server."""
    if isinstance(error, Expired | Gone):
        return True
    return isinstance(error, Timeout) and any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)


def is_refusal(error: Exception) -> bool:
    """Return True if the server rejected the request for good: a 4xx other than 429 and a version that is gone."""
    if not isinstance(error, ApiError) or is_version_gone(error):
        return False
    return 400 <= error.code < 500 and not isinstance(error, TooManyRequests)
