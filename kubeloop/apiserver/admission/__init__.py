"""Admission: what may still change or refuse a write after it was decoded and before it is stored.

decoded, defaulted ─▶ admit (plugins in order, may change) ─▶ mutate (policies, webhooks) ─▶ strategy, validation
     store ◀─ charge (quotas) ◀─ validate (policies, webhooks) ◀─ check (plugins, may only refuse) ◀─┘

Plugins answer at once. Policies and webhooks, which may have to wait for others, are there only if somebody made some.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from kubeloop.api import errors
from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.query import Query

if TYPE_CHECKING:
    from kubeloop.apiserver.admission.plugins.quota.quota_ledger import Ledger
    from kubeloop.apiserver.authorization import Authorizer

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
    query: Query | None = None
    delete_options: Any | None = None
    has_drawn_name: bool = False  # one that the client left to the server
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit log
    method: str = ""  # of the request, where that makes a difference to rights

    def warn(self, text: str) -> None:
        """Shown to the client; each text once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def forbidden(self, why: str, causes: Iterable[errors.Cause] = ()) -> errors.Forbidden:
        """The refusal of this write; an object that has no name yet is told by the name it will be made from."""
        name = self.name
        if not name and self.obj is not None:
            name = self.obj.metadata.name or self.obj.metadata.generate_name
        return errors.forbidden(self.resource.group, self.resource.plural, name or "Unknown", why, causes)


class Answered(NamedTuple):
    """What was asked of a lookup, and what it said."""

    ask: Callable[..., Any]
    question: tuple[str, ...]
    answer: Any


class Lookup(Protocol):
    """How plugins read other objects: committed state, as structs.

    Every pod that is created asks, so answers are remembered: as long as nothing changed, the same question gets the
    same object, and a plugin may keep what it derived for as long as the answer stays identical.
    """

    answers: list[Answered] | None

    def find(self, plural: str, namespace: str, name: str, group: str = "", version: str = "v1") -> Any | None: ...

    def every(self, plural: str, namespace: str = "", group: str = "", version: str = "v1") -> Sequence[Any]: ...


class Plugin:
    """One admission plugin. It says in its first lines what it looks at; either method may raise to refuse."""

    name: ClassVar[str]
    resources: ClassVar[frozenset[str]] = frozenset()  # with their group, such as "ingresses.networking.k8s.io"
    subresources: ClassVar[frozenset[str]] = frozenset({""})
    operations: ClassVar[frozenset[Operation]] = frozenset({"CREATE"})
    charges: ClassVar[bool] = False  # whether its check is the very last, after all others agreed

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Whether such writes concern this plugin; asked once for each combination, so not about an object."""
        return (
            operation in self.operations and subresource in self.subresources and resource.qualified in self.resources
        )

    def admit(self, attempt: Attempt) -> None:
        """Change the object in place, or refuse it."""

    def check(self, attempt: Attempt) -> None:
        """Refuse the object in its final form."""


_Step = Callable[[Attempt], None]
_Steps = tuple[tuple[_Step, ...], tuple[_Step, ...], tuple[_Step, ...]]


class Chain:
    """All plugins, in order, given or made when the first write comes.

    Which of them have a say is worked out once for each kind of write. `mutate` and `validate` are what somebody
    configured besides, None as long as nobody has.
    """

    mutate: Callable[[Attempt], Awaitable[None]] | None = None
    validate: Callable[[Attempt], Awaitable[None]] | None = None

    def __init__(
        self, plugins: Sequence[Plugin] | Callable[[], Sequence[Plugin]] = (), lookup: Lookup | None = None
    ) -> None:
        self._given = plugins
        self.lookup = lookup  # by which all plugins know what they know of other objects, if that is so
        self._steps: dict[tuple[str, str, str, str], _Steps] = {}

    def admit(self, attempt: Attempt) -> None:
        for step in self._steps_of(attempt)[0]:
            step(attempt)

    def admit_openly(self, attempt: Attempt) -> list[Answered]:
        """The same, where a lookup is all that plugins know by; tells what they were told."""
        assert self.lookup is not None
        answers: list[Answered] = []
        self.lookup.answers = answers
        try:
            self.admit(attempt)
        finally:
            self.lookup.answers = None
        return answers

    def check(self, attempt: Attempt) -> None:
        for step in self._steps_of(attempt)[1]:
            step(attempt)

    def charge(self, attempt: Attempt) -> None:
        """The last word, after everybody else's."""
        for step in self._steps_of(attempt)[2]:
            step(attempt)

    def _steps_of(self, attempt: Attempt) -> _Steps:
        resource = attempt.resource
        key = (resource.group, resource.plural, attempt.subresource, attempt.operation)
        steps = self._steps.get(key)
        if steps is None:
            steps = self._steps[key] = self._select(attempt.operation, resource, attempt.subresource)
        return steps

    @cached_property
    def plugins(self) -> tuple[Plugin, ...]:
        return tuple(self._given() if callable(self._given) else self._given)

    def _select(self, operation: Operation, resource: Resource, subresource: str) -> _Steps:
        concerned = [plugin for plugin in self.plugins if plugin.handles(operation, resource, subresource)]
        checking = [plugin for plugin in concerned if type(plugin).check is not Plugin.check]
        return (
            tuple(plugin.admit for plugin in concerned if type(plugin).admit is not Plugin.admit),
            tuple(plugin.check for plugin in checking if not plugin.charges),
            tuple(plugin.check for plugin in checking if plugin.charges),
        )


def default_chain(
    lookup: Lookup, ledger: Ledger, authorizer: Authorizer | None = None, features: Features = DEFAULT_FEATURES
) -> Chain:
    """What every write goes through unless somebody configures it otherwise.

    Without an authorizer, the plugins that would ask it are left out.
    """

    def load() -> Sequence[Plugin]:
        # A server that is only read needs none of the types that the plugins are made of.
        from kubeloop.apiserver.admission.built_in import built_in_plugins

        return built_in_plugins(lookup, ledger, authorizer, features)

    return Chain(load, lookup)
