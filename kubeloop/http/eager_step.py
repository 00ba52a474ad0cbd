"""Runs a coroutine without a task until it first awaits."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


@types.coroutine
def resume(coroutine: Coroutine[Any, Any, Result], waiting_for: object) -> Generator[Any, Any, Result]:
    """Continue, inside a task, a coroutine that was stepped once and yielded `waiting_for`."""
    step: Callable[[Any], object]
    while True:
        try:
            argument = yield waiting_for
            step = coroutine.send
        except BaseException as error:  # a cancellation is passed to the coroutine
            argument = error
            step = coroutine.throw
        try:
            waiting_for = step(argument)
        except StopIteration as done:
            result: Result = done.value
            return result
