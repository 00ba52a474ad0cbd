"""Admission: what may still change or refuse a write after it was decoded and before it is stored.

decoded, defaulted ──▶ admit (plugins in order, may change) ──▶ strategy, validation ──▶ check (may only refuse) ──▶ store
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from kubeloop.api.kinds import Resource
from kubeloop.apiserver.context import User

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Attempt:
    """One write as admission sees it; `obj` is fresh and may be changed in place by `admit`."""

    operation: Operation
    resource: Resource
    subresource: str
    namespace: str
    name: str
    obj: Any | None
    old: Any | None
    user: User
    dry_run: bool
    now: datetime
    warnings: list[str]


class Lookup(Protocol):
    """How plugins read other objects: committed state, as structs."""

    def find(self, plural: str, namespace: str, name: str, group: str = "", version: str = "v1") -> Any | None: ...

    def every(self, plural: str, namespace: str = "", group: str = "", version: str = "v1") -> Sequence[Any]: ...


class Plugin(Protocol):
    """One admission plugin. Either method may raise an ApiError to refuse."""

    name: str

    def admit(self, attempt: Attempt) -> None: ...

    def check(self, attempt: Attempt) -> None: ...


class Chain:
    """All plugins, in order."""

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self._plugins = tuple(plugins)

    def admit(self, attempt: Attempt) -> None:
        for plugin in self._plugins:
            plugin.admit(attempt)

    def check(self, attempt: Attempt) -> None:
        for plugin in self._plugins:
            plugin.check(attempt)
