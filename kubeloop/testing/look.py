# SPDX-License-Identifier: Apache-2.0
"""One look of `Cluster.eventually` at a condition: its value, or the error that counts as false."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kubeloop.api.errors import NotFound

T = TypeVar("T")

_MAX_TEXT = 2000


class ClusterAssertionError(AssertionError):
    """Base of the errors that a cluster raises about the code under test; no condition may hide them."""


@dataclass(frozen=True, slots=True)
class LookResult(Generic[T]):
    """Result of a look: true if the condition holds."""

    value: T
    error: Exception | None = None

    def __bool__(self) -> bool:
        return self.error is None and bool(self.value)

    def __str__(self) -> str:
        text = repr(self.value) if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def look_once(look: Callable[[], T]) -> LookResult[T]:
    """Evaluate a condition; raises TypeError for one that has to be awaited."""
    try:
        value = look()
    except ClusterAssertionError:
        raise
    except (AssertionError, NotFound) as error:
        return LookResult(None, error)  # type: ignore[arg-type]  # false: nobody reads the value
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError("the condition must not be async: use cluster.client, or cluster.run(…) within it")
    return LookResult(value)
