"""Dynamic admission chain: runs configured policies and webhooks in upstream's order.

mutate:   policies ─▶ webhooks ─▶ (again if something changed: plugins ─▶ policies ─▶ webhooks)
validate: policies ─▶ webhooks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kubeloop.api.kinds import Resource
from kubeloop.apiserver.admission import AdmissionChain, Attributes
from kubeloop.apiserver.admission.dynamic.expression_evaluator import ExpressionEvaluator
from kubeloop.apiserver.admission.dynamic.lazy import GROUP
from kubeloop.apiserver.admission.dynamic.match_rules import EXEMPT_FROM_POLICIES, EXEMPT_FROM_WEBHOOKS, Matcher
from kubeloop.apiserver.admission.dynamic.metrics import AdmissionMetrics
from kubeloop.apiserver.admission.dynamic.policies.mutating import MutatingPolicyDispatcher
from kubeloop.apiserver.admission.dynamic.policies.policies import (
    MutatingPolicy,
    ValidatingPolicy,
    policies_with_bindings,
)
from kubeloop.apiserver.admission.dynamic.policies.validating import ValidatingPolicyDispatcher
from kubeloop.apiserver.admission.dynamic.reinvocation import Reinvocation, ReinvocationContext
from kubeloop.apiserver.admission.dynamic.versioned_attributes import VersionedAttributes
from kubeloop.apiserver.admission.dynamic.webhooks.asking import WebhookDispatcher
from kubeloop.apiserver.admission.dynamic.webhooks.calling import WebhookCaller
from kubeloop.apiserver.admission.dynamic.webhooks.hooks import WebhookAccessor, hooks_of
from kubeloop.apiserver.admission.lookup import RegistryLookup
from kubeloop.apiserver.apiextensions.conversion.converter import convert
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.background.offload import WorkerThread
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.webhook_client.client_config import WebhookClients
from kubeloop.clock import Clock


class DynamicAdmission:
    """Configured policies and webhooks; installed in the chain of plugins only while there are any."""

    def __init__(
        self,
        registry: StorageRegistry,
        chain: AdmissionChain,
        authorizer: UnionAuthorizer,
        clock: Clock,
        aside: WorkerThread,
    ) -> None:
        self._registry = registry
        self._chain = chain
        self._lookup = RegistryLookup(registry)
        self._callees = WebhookClients(self._lookup, clock.random())
        self._matcher = Matcher(self._lookup, self._equivalents)
        metrics = self._metrics = AdmissionMetrics()
        judge = ExpressionEvaluator(aside, metrics, clock)
        caller = WebhookCaller(self._callees, clock)
        self._webhooks = WebhookDispatcher(caller, self._matcher, authorizer, judge)
        self._mutating_policies = MutatingPolicyDispatcher(self._matcher, registry, authorizer, judge)
        self._validating_policies = ValidatingPolicyDispatcher(self._matcher, registry, authorizer, judge)
        self._mutating: Sequence[WebhookAccessor] = ()
        self._validating: Sequence[WebhookAccessor] = ()
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

    async def _mutate(self, attempt: Attributes) -> None:
        subject = VersionedAttributes(attempt, convert, settled=False)
        reinvocation = Reinvocation()
        policies, webhooks = ReinvocationContext(reinvocation), ReinvocationContext(reinvocation)
        await self._mutate_once(subject, reinvocation, policies, webhooks)
        if reinvocation.is_needed:
            reinvocation.is_second = True
            self._chain.admit(attempt)
            await self._mutate_once(subject, reinvocation, policies, webhooks)

    async def _mutate_once(
        self,
        subject: VersionedAttributes,
        reinvocation: Reinvocation,
        policies: ReinvocationContext,
        webhooks: ReinvocationContext,
    ) -> None:
        qualified = subject.attempt.resource.qualified
        if self._changing and qualified not in EXEMPT_FROM_POLICIES:
            await self._mutating_policies.mutate(self._changing, subject, policies)
        if self._mutating and qualified not in EXEMPT_FROM_WEBHOOKS:
            await self._webhooks.mutate(self._mutating, subject, webhooks, reinvocation)

    async def _validate(self, attempt: Attributes) -> None:
        subject = VersionedAttributes(attempt, convert, settled=True)
        if self._demanding and attempt.resource.qualified not in EXEMPT_FROM_POLICIES:
            await self._validating_policies.validate(self._demanding, subject)
        if self._validating and attempt.resource.qualified not in EXEMPT_FROM_WEBHOOKS:
            await self._webhooks.validate(self._validating, subject)

    def _policies(self, make: Any, kind: str) -> Any:
        return policies_with_bindings(
            make, self._every(f"{kind}admissionpolicies"), self._every(f"{kind}admissionpolicybindings")
        )

    def _every(self, plural: str) -> list[Any]:
        return self._registry.every(plural, group=GROUP)

    def _equivalents(self, resource: Resource) -> list[Resource]:
        """Return all versions in which the same objects are served."""
        return [
            storage.resource
            for storage in self._registry.storages()
            if storage.resource.key_prefix == resource.key_prefix
        ]
