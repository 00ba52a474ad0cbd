"""Dynamic admission chain: runs configured policies and webhooks in upstream's order.

mutate:   policies ─▶ webhooks ─▶ (again if something changed: plugins ─▶ policies ─▶ webhooks)
validate: policies ─▶ webhooks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kubeloop.api.kinds import Resource
from kubeloop.apiserver.admission import Attempt, Chain
from kubeloop.apiserver.admission.dynamic.expression_evaluator import Judge
from kubeloop.apiserver.admission.dynamic.lazy import GROUP
from kubeloop.apiserver.admission.dynamic.match_rules import UNSEEN_BY_POLICIES, UNSEEN_BY_WEBHOOKS, Matcher
from kubeloop.apiserver.admission.dynamic.metrics import AdmissionMetrics
from kubeloop.apiserver.admission.dynamic.policies.mutating import MutatingPolicies
from kubeloop.apiserver.admission.dynamic.policies.policies import MutatingPolicy, ValidatingPolicy, bound
from kubeloop.apiserver.admission.dynamic.policies.validating import ValidatingPolicies
from kubeloop.apiserver.admission.dynamic.reinvocation import Participants, Reinvocation
from kubeloop.apiserver.admission.dynamic.versioned_attributes import Subject
from kubeloop.apiserver.admission.dynamic.webhooks.asking import Webhooks
from kubeloop.apiserver.admission.dynamic.webhooks.calling import Caller
from kubeloop.apiserver.admission.dynamic.webhooks.hooks import Hook, hooks_of
from kubeloop.apiserver.admission.lookup import RegistryLookup
from kubeloop.apiserver.apiextensions.conversion.converter import convert
from kubeloop.apiserver.authorization import Authorizer
from kubeloop.apiserver.background.offload import Aside
from kubeloop.apiserver.registry.storage import Registry
from kubeloop.apiserver.webhook_client.client_config import Callees
from kubeloop.clock import Clock


class Configuration:
    """Configured policies and webhooks; installed in the chain of plugins only while there are any."""

    def __init__(self, registry: Registry, chain: Chain, authorizer: Authorizer, clock: Clock, aside: Aside) -> None:
        self._registry = registry
        self._chain = chain
        self._lookup = RegistryLookup(registry)
        self._callees = Callees(self._lookup, clock.random())
        self._matcher = Matcher(self._lookup, self._equivalents)
        metrics = self._metrics = AdmissionMetrics()
        judge = Judge(aside, metrics, clock)
        caller = Caller(self._callees, clock)
        self._webhooks = Webhooks(caller, self._matcher, authorizer, judge)
        self._mutating_policies = MutatingPolicies(self._matcher, registry, authorizer, judge)
        self._validating_policies = ValidatingPolicies(self._matcher, registry, authorizer, judge)
        self._mutating: Sequence[Hook] = ()
        self._validating: Sequence[Hook] = ()
        self._changing: Sequence[MutatingPolicy] = ()
        self._demanding: Sequence[ValidatingPolicy] = ()

    def changed(self) -> None:
        """Reload policies and webhooks after a configuration object has changed."""
        self._matcher.forget()
        self._mutating = hooks_of(self._every("mutatingwebhookconfigurations"))
        self._validating = hooks_of(self._every("validatingwebhookconfigurations"))
        self._changing = self._policies(MutatingPolicy, "mutating")
        self._demanding = self._policies(ValidatingPolicy, "validating")
        self._chain.mutate = self._mutate if self._mutating or self._changing else None
        self._chain.validate = self._validate if self._validating or self._demanding else None

    def close(self) -> None:
        """Close the connections to webhooks."""
        self._callees.close()

    def metric_lines(self) -> Iterator[str]:
        """Yield the metrics of dynamic admission in Prometheus text format."""
        return self._metrics.lines()

    async def _mutate(self, attempt: Attempt) -> None:
        subject = Subject(attempt, convert, settled=False)
        reinvocation = Reinvocation()
        policies, webhooks = Participants(reinvocation), Participants(reinvocation)
        await self._mutate_once(subject, reinvocation, policies, webhooks)
        if reinvocation.is_needed:
            reinvocation.is_second = True
            self._chain.admit(attempt)
            await self._mutate_once(subject, reinvocation, policies, webhooks)

    async def _mutate_once(
        self, subject: Subject, reinvocation: Reinvocation, policies: Participants, webhooks: Participants
    ) -> None:
        qualified = subject.attempt.resource.qualified
        if self._changing and qualified not in UNSEEN_BY_POLICIES:
            await self._mutating_policies.mutate(self._changing, subject, policies)
        if self._mutating and qualified not in UNSEEN_BY_WEBHOOKS:
            await self._webhooks.mutate(self._mutating, subject, webhooks, reinvocation)

    async def _validate(self, attempt: Attempt) -> None:
        subject = Subject(attempt, convert, settled=True)
        if self._demanding and attempt.resource.qualified not in UNSEEN_BY_POLICIES:
            await self._validating_policies.validate(self._demanding, subject)
        if self._validating and attempt.resource.qualified not in UNSEEN_BY_WEBHOOKS:
            await self._webhooks.validate(self._validating, subject)

    def _policies(self, make: Any, kind: str) -> Any:
        return bound(make, self._every(f"{kind}admissionpolicies"), self._every(f"{kind}admissionpolicybindings"))

    def _every(self, plural: str) -> list[Any]:
        return self._registry.every(plural, group=GROUP)

    def _equivalents(self, resource: Resource) -> list[Resource]:
        """Return all versions in which the same objects are served."""
        return [
            storage.resource
            for storage in self._registry.storages()
            if storage.resource.key_prefix == resource.key_prefix
        ]
