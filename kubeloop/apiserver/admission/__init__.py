# SPDX-License-Identifier: Apache-2.0
"""Admission: changes or rejects a write after it was decoded and before it is stored.

decoded, defaulted ─▶ admit (plugins in order) ─▶ dynamic_mutate (policies, webhooks) ─▶ strategy, validation
     store ◀─ validate_quota ◀─ dynamic_validate (policies, webhooks) ◀─ validate (plugins in order) ◀─┘

Most plugins are synchronous; those that ask the authorizer return an awaitable. Policies and webhooks, which may have
to wait, are called only if some are configured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from operator import length_hint
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.warning_recorder import WarningRecorder

if TYPE_CHECKING:
    from kubeloop.apiserver.admission.setup import AdmissionSetup, PluginContext
    from kubeloop.apiserver.metrics.admission import AdmissionStepMetrics, StepSeries
    from kubeloop.apiserver.request.context import RequestLatency

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
    old_obj: Any | None
    user: User
    dry_run: bool
    now: datetime
    warnings: WarningRecorder
    query: Query | None = None
    delete_options: Any | None = None
    has_generated_name: bool = False  # the server generated the name
    is_mutating: bool = False  # mutating plugins run now; upstream generates names after them
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit log
    method: str = ""  # HTTP method of the request, as far as authorization depends on it
    latency: RequestLatency | None = None  # adds up the time of webhooks
    steps: _Steps | None = None  # the plugins' steps for this write, looked up on first use

    def warn(self, text: str) -> None:
        """Add a Warning header to the response; each text appears once."""
        self.warnings.add(text)

    @property
    def object_name(self) -> str:
        """Name of the object; empty as long as upstream has not generated it."""
        if self.obj is None or (self.is_mutating and self.has_generated_name):
            return ""
        name: str = self.obj.metadata.name
        return name

    def forbidden(self, why: str, causes: Iterable[errors.StatusCause] = ()) -> errors.Forbidden:
        """Return the Forbidden error of this write; an object without a name is named by its generateName."""
        name = "" if self.is_mutating and self.has_generated_name else self.name
        if not name and self.obj is not None:
            name = self.object_name or self.obj.metadata.generate_name
        return errors.forbidden(self.resource.group, self.resource.plural, name or "Unknown", why, causes)


class LookupRecord(NamedTuple):
    """Record of one lookup: function, arguments and result."""

    function: Callable[..., Any]
    args: tuple[str, ...]
    result: Any


class Lookup(Protocol):
    """Read access of plugins to other objects: committed state, as structs.

    Results are cached, because every pod creation needs them: as long as nothing changed, the same lookup returns the
    same object, so that a plugin may keep derived data while the result stays identical.
    """

    records: list[LookupRecord] | None

    def get_object(self, plural: str, namespace: str, name: str, group: str = "", version: str = "v1") -> Any | None:
        """Return an object by name, or None."""

    def list_objects(self, plural: str, namespace: str = "", group: str = "", version: str = "v1") -> Sequence[Any]:
        """Return all objects of a kind, in one namespace or in all."""


class AdmissionPlugin:
    """Admission plugin. Its class attributes declare the writes it handles; both methods may raise to reject.

    A plugin that has to wait returns an awaitable, which is awaited before the next plugin runs.
    """

    name: ClassVar[str]
    resources: ClassVar[frozenset[str]] = frozenset()  # with their group, such as "ingresses.networking.k8s.io"
    subresources: ClassVar[frozenset[str]] = frozenset({""})
    operations: ClassVar[frozenset[Operation]] = frozenset({"CREATE"})
    is_quota: ClassVar[bool] = False  # True if its check runs last, after all others have passed
    # True if its decision about a renewed lease depends on user, namespace and name only.
    ignores_renewals: ClassVar[bool] = False

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True if the plugin handles such writes; called once per combination, so not about an object."""
        return (
            operation in self.operations
            and subresource in self.subresources
            and resource.group_resource in self.resources
        )

    def admit(self, attempt: Attributes) -> Awaitable[None] | None:
        """Change the object in place, or reject it (mutating admission)."""

    def validate(self, attempt: Attributes) -> Awaitable[None] | None:
        """Reject the object in its final form (validating admission)."""


_Method = Callable[[Attributes], Awaitable[None] | None]


class _Step(NamedTuple):
    """Methods of the plugins in one step for one kind of write, and the series of their runs."""

    kind: str
    methods: tuple[_Method, ...]
    series: StepSeries | None = None  # None without metrics


class _Steps(NamedTuple):
    admit: _Step
    validate: _Step
    quota: _Step


class AdmissionChain:
    """Chain of plugins in order, passed in or built on the first write.

    The plugins of each kind of write are selected once. `dynamic_mutate` and `dynamic_validate` run the policies and
    webhooks, and are None while there are none.
    """

    dynamic_mutate: Callable[[Attributes], Awaitable[None]] | None = None
    dynamic_validate: Callable[[Attributes], Awaitable[None]] | None = None

    def __init__(
        self,
        plugins: Sequence[AdmissionPlugin] | Callable[[], Sequence[AdmissionPlugin]] = (),
        lookup: Lookup | None = None,
        setup: AdmissionSetup | None = None,
        metrics: AdmissionStepMetrics | None = None,
    ) -> None:
        self._plugins_or_factory = plugins
        self.setup = setup  # enabled plugins and their configurations; None for the defaults
        self._metrics = metrics
        self.lookup = lookup  # the plugins' only source of other objects; None if unknown
        self._steps: dict[tuple[str, str, str, str], _Steps] = {}
        self._renewal_steps: tuple[_Step, ...] | None = None  # empty if a plugin must see each renewal

    def admit(self, attempt: Attributes) -> Awaitable[None] | None:
        """Run the mutating step of the plugins that handle the write; what is returned must be awaited, if anything."""
        attempt.is_mutating = True
        return self._run(self._steps_of(attempt).admit, attempt)

    def admit_recording_lookups(self, attempt: Attributes) -> tuple[list[LookupRecord], Awaitable[None] | None]:
        """Run the mutating step and return the lookups that it made; requires a recording lookup.

        If there is something to be awaited, the lookups are incomplete.
        """
        assert self.lookup is not None
        answers: list[LookupRecord] = []
        self.lookup.records = answers
        try:
            waiting = self.admit(attempt)
        finally:
            self.lookup.records = None
        return answers, waiting

    def validate(self, attempt: Attributes) -> Awaitable[None] | None:
        """Run the validating step of the plugins that handle the write, likewise."""
        attempt.is_mutating = False
        return self._run(self._steps_of(attempt).validate, attempt)

    def validate_quota(self, attempt: Attributes) -> Awaitable[None] | None:
        """Run the quota plugins, after all other admission, likewise."""
        step = self._steps_of(attempt).quota
        return self._run(step, attempt) if step.methods else None

    def admits_repeated_renewals(self, lease: Resource) -> bool:
        """Return True if a lease that its user has renewed before may be renewed again without further admission.

        False if a plugin, policy or webhook must see each renewal.
        """
        if self.dynamic_mutate is not None or self.dynamic_validate is not None:
            return False
        if self._renewal_steps is None:
            concerned = [one for one in self.plugins if one.handles("UPDATE", lease, "")]
            steps = self._steps_for("UPDATE", lease, "") if all(one.ignores_renewals for one in concerned) else ()
            self._renewal_steps = tuple(steps)
        return bool(self._renewal_steps)

    def count_repeated_renewals(self, times: int) -> None:
        """Count renewals without further admission as admitted."""
        for step in self._renewal_steps or ():
            if step.series is not None:
                step.series.count_repeated(times)

    def _run(self, step: _Step, attempt: Attributes) -> Awaitable[None] | None:
        """Run plugins in order, and count it.

        From the first one that has to wait, the rest is returned as an awaitable.
        """
        series = step.series
        if not step.methods:
            if series is not None:
                series.empty_runs += 1
            return None
        if series is None:
            return _run(step.methods, attempt)
        if not series.left:
            return self._run_timed(step, series, attempt)
        series.left -= 1
        remaining = iter(step.methods)
        try:
            for method in remaining:
                waiting = method(attempt)
                if waiting is not None:
                    passed = _passed(step, remaining)
                    series.end_untimed(passed)
                    return self._run_rest(step, series, waiting, attempt, passed)
        except errors.ApiError:
            passed = _passed(step, remaining)
            self._count_rejection(step, attempt, passed, series.end_untimed(passed))
            raise
        return None

    def _run_timed(self, step: _Step, series: StepSeries, attempt: Attributes) -> Awaitable[None] | None:
        """Run plugins in order, and observe the duration of each and of all; returns like `_run`."""
        assert self._metrics is not None
        monotonic = self._metrics.monotonic
        readings = [monotonic()]
        try:
            for method in step.methods:
                waiting = method(attempt)
                if waiting is not None:
                    series.observe_plugins(readings)
                    return self._run_rest(step, series, waiting, attempt, len(readings) - 1)
                readings.append(monotonic())
        except errors.ApiError:
            series.observe_plugins(readings)
            self._count_rejection(step, attempt, len(readings) - 1, [*readings, monotonic()])
            raise
        series.observe(readings)
        return None

    async def _run_rest(
        self, step: _Step, series: StepSeries, waiting: Awaitable[None], attempt: Attributes, passed: int
    ) -> None:
        """Await a plugin and run those after it, and observe their durations; some plugins have passed before."""
        assert self._metrics is not None
        monotonic = self._metrics.monotonic
        readings = [monotonic()]
        try:
            await waiting
            readings.append(monotonic())
            for method in step.methods[passed + 1 :]:
                following = method(attempt)
                if following is not None:
                    await following
                readings.append(monotonic())
        except errors.ApiError:
            series.observe_plugins(readings, passed)
            self._count_rejection(step, attempt, passed + len(readings) - 1, [*readings, monotonic()])
            raise
        series.observe_plugins(readings, passed)
        series.observe_step(readings[-1] - readings[0])

    def _count_rejection(self, step: _Step, attempt: Attributes, passed: int, readings: Sequence[float]) -> None:
        if self._metrics is not None and step.series is not None:
            self._metrics.count_rejection(step.series.names[passed], step.kind, attempt.operation, readings)

    def _steps_of(self, attempt: Attributes) -> _Steps:
        steps = attempt.steps
        if steps is None:
            steps = attempt.steps = self._steps_for(attempt.operation, attempt.resource, attempt.subresource)
        return steps

    def _steps_for(self, operation: Operation, resource: Resource, subresource: str) -> _Steps:
        key = (resource.group, resource.plural, subresource, operation)
        steps = self._steps.get(key)
        if steps is None:
            steps = self._steps[key] = self._select(operation, resource, subresource)
        return steps

    @cached_property
    def plugins(self) -> tuple[AdmissionPlugin, ...]:
        """All plugins in order, built on first use."""
        return tuple(self._plugins_or_factory() if callable(self._plugins_or_factory) else self._plugins_or_factory)

    def _select(self, operation: Operation, resource: Resource, subresource: str) -> _Steps:
        concerned = [plugin for plugin in self.plugins if plugin.handles(operation, resource, subresource)]
        checking = [plugin for plugin in concerned if type(plugin).validate is not AdmissionPlugin.validate]
        return _Steps(
            self._step("admit", operation, [one for one in concerned if type(one).admit is not AdmissionPlugin.admit]),
            self._step("validate", operation, [one for one in checking if not one.is_quota]),
            self._step("validate", operation, [one for one in checking if one.is_quota], is_quota=True),
        )

    def _step(
        self,
        kind: Literal["admit", "validate"],
        operation: Operation,
        plugins: list[AdmissionPlugin],
        *,
        is_quota: bool = False,
    ) -> _Step:
        metrics = self._metrics
        methods = tuple(one.admit if kind == "admit" else one.validate for one in plugins)
        if metrics is None:
            return _Step(kind, methods)
        return _Step(kind, methods, metrics.step(kind, operation, [one.name for one in plugins], is_quota=is_quota))


def _passed(step: _Step, remaining: Iterator[_Method]) -> int:
    """Return the number of plugins before the current one of an iteration over all."""
    return len(step.methods) - length_hint(remaining) - 1


def _run(steps: Iterable[_Method], attempt: Attributes) -> Awaitable[None] | None:
    """Run the steps; from the first one that has to wait, return the rest as an awaitable."""
    remaining = iter(steps)
    for step in remaining:
        waiting = step(attempt)
        if waiting is not None:
            return _run_rest(waiting, remaining, attempt)
    return None


async def _run_rest(waiting: Awaitable[None], remaining: Iterator[_Method], attempt: Attributes) -> None:
    await waiting
    for step in remaining:
        following = step(attempt)
        if following is not None:
            await following


def default_chain(context: PluginContext, metrics: AdmissionStepMetrics | None = None) -> AdmissionChain:
    """Return the chain of the plugins that the context's setup enables.

    Without an authorizer, the plugins that need it are left out.
    """

    def load() -> Sequence[AdmissionPlugin]:
        # A server that is only read from needs none of the types that the plugins import.
        from kubeloop.apiserver.admission.built_in import built_in_plugins

        return tuple(built_in_plugins(context))

    return AdmissionChain(load, context.lookup, context.setup, metrics)
