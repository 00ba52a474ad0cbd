"""Admission: changes or rejects a write after it was decoded and before it is stored.

decoded, defaulted ─▶ admit (plugins in order, may change) ─▶ mutate (policies, webhooks) ─▶ strategy, validation
     store ◀─ charge (quotas) ◀─ validate (policies, webhooks) ◀─ check (plugins, may only reject) ◀─┘

Plugins are synchronous. Policies and webhooks, which may have to wait, are called only if some are configured.
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
    from kubeloop.apiserver.admission.plugins.quota.quota_ledger import QuotaAccessor
    from kubeloop.apiserver.authorization import UnionAuthorizer

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Attributes:
    """Attributes of one write for admission; `obj` is the write's own copy, and `admit` may change it in place."""

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
    has_drawn_name: bool = False  # the server generated the name
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit log
    method: str = ""  # HTTP method of the request, as far as authorization depends on it

    def warn(self, text: str) -> None:
        """Add a Warning header to the response; each text appears once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def forbidden(self, why: str, causes: Iterable[errors.StatusCause] = ()) -> errors.Forbidden:
        """Return the Forbidden error of this write; an object without a name is named by its generateName."""
        name = self.name
        if not name and self.obj is not None:
            name = self.obj.metadata.name or self.obj.metadata.generate_name
        return errors.forbidden(self.resource.group, self.resource.plural, name or "Unknown", why, causes)


class LookupRecord(NamedTuple):
    """Record of one lookup: function, arguments and result."""

    ask: Callable[..., Any]
    question: tuple[str, ...]
    answer: Any


class Lookup(Protocol):
    """Read access of plugins to other objects: committed state, as structs.

    Results are cached, because every pod creation needs them: as long as nothing changed, the same lookup returns the
    same object, so that a plugin may keep derived data while the result stays identical.
    """

    answers: list[LookupRecord] | None

    def find(self, plural: str, namespace: str, name: str, group: str = "", version: str = "v1") -> Any | None:
        """Return an object by name, or None."""

    def every(self, plural: str, namespace: str = "", group: str = "", version: str = "v1") -> Sequence[Any]:
        """Return all objects of a kind, in one namespace or in all."""


class AdmissionPlugin:
    """Admission plugin. Its class attributes declare the writes it handles; both methods may raise to reject."""

    name: ClassVar[str]
    resources: ClassVar[frozenset[str]] = frozenset()  # with their group, such as "ingresses.networking.k8s.io"
    subresources: ClassVar[frozenset[str]] = frozenset({""})
    operations: ClassVar[frozenset[Operation]] = frozenset({"CREATE"})
    charges: ClassVar[bool] = False  # True if its check runs last, after all others have passed

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True if the plugin handles such writes; called once per combination, so not about an object."""
        return (
            operation in self.operations and subresource in self.subresources and resource.qualified in self.resources
        )

    def admit(self, attempt: Attributes) -> None:
        """Change the object in place, or reject it (mutating admission)."""

    def check(self, attempt: Attributes) -> None:
        """Reject the object in its final form (validating admission)."""


_Step = Callable[[Attributes], None]
_Steps = tuple[tuple[_Step, ...], tuple[_Step, ...], tuple[_Step, ...]]


class AdmissionChain:
    """Chain of plugins in order, passed in or built on the first write.

    The plugins of each kind of write are selected once. `mutate` and `validate` run the configured policies and
    webhooks, and are None while there are none.
    """

    mutate: Callable[[Attributes], Awaitable[None]] | None = None
    validate: Callable[[Attributes], Awaitable[None]] | None = None

    def __init__(
        self,
        plugins: Sequence[AdmissionPlugin] | Callable[[], Sequence[AdmissionPlugin]] = (),
        lookup: Lookup | None = None,
    ) -> None:
        self._given = plugins
        self.lookup = lookup  # the plugins' only source of other objects; None if unknown
        self._steps: dict[tuple[str, str, str, str], _Steps] = {}

    def admit(self, attempt: Attributes) -> None:
        """Run the mutating step of the plugins that handle the write."""
        for step in self._steps_of(attempt)[0]:
            step(attempt)

    def admit_openly(self, attempt: Attributes) -> list[LookupRecord]:
        """Run the mutating step and return the lookups that it made; requires a recording lookup."""
        assert self.lookup is not None
        answers: list[LookupRecord] = []
        self.lookup.answers = answers
        try:
            self.admit(attempt)
        finally:
            self.lookup.answers = None
        return answers

    def check(self, attempt: Attributes) -> None:
        """Run the validating step of the plugins that handle the write."""
        for step in self._steps_of(attempt)[1]:
            step(attempt)

    def charge(self, attempt: Attributes) -> None:
        """Run the quota plugins, after all other admission."""
        for step in self._steps_of(attempt)[2]:
            step(attempt)

    def _steps_of(self, attempt: Attributes) -> _Steps:
        resource = attempt.resource
        key = (resource.group, resource.plural, attempt.subresource, attempt.operation)
        steps = self._steps.get(key)
        if steps is None:
            steps = self._steps[key] = self._select(attempt.operation, resource, attempt.subresource)
        return steps

    @cached_property
    def plugins(self) -> tuple[AdmissionPlugin, ...]:
        """All plugins in order, built on first use."""
        return tuple(self._given() if callable(self._given) else self._given)

    def _select(self, operation: Operation, resource: Resource, subresource: str) -> _Steps:
        concerned = [plugin for plugin in self.plugins if plugin.handles(operation, resource, subresource)]
        checking = [plugin for plugin in concerned if type(plugin).check is not AdmissionPlugin.check]
        return (
            tuple(plugin.admit for plugin in concerned if type(plugin).admit is not AdmissionPlugin.admit),
            tuple(plugin.check for plugin in checking if not plugin.charges),
            tuple(plugin.check for plugin in checking if plugin.charges),
        )


def default_chain(
    lookup: Lookup,
    ledger: QuotaAccessor,
    authorizer: UnionAuthorizer | None = None,
    features: Features = DEFAULT_FEATURES,
) -> AdmissionChain:
    """Return the chain of the plugins that are enabled by default.

    Without an authorizer, the plugins that need it are left out.
    """

    def load() -> Sequence[AdmissionPlugin]:
        # A server that is only read from needs none of the types that the plugins import.
        from kubeloop.apiserver.admission.built_in import built_in_plugins

        return built_in_plugins(lookup, ledger, authorizer, features)

    return AdmissionChain(load, lookup)
