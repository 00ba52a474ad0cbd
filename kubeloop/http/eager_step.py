"""Running a coroutine without a task for as long as it does not wait."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


@types.coroutine
def resume(coroutine: Coroutine[Any, Any, Result], waiting_for: object) -> Generator[Any, Any, Result]:
    """Go on, inside a task, with a coroutine that was stepped once and yielded `waiting_for`."""
    step: Callable[[Any], object]
    while True:
        try:
            argument = yield waiting_for
            step = coroutine.send
        except BaseException as error:  # a cancellation goes to whoever waits
            argument = error
            step = coroutine.throw
        try:
            waiting_for = step(argument)
        except StopIteration as done:
            result: Result = done.value
            return result
