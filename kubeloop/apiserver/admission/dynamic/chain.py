# SPDX-License-Identifier: Apache-2.0
"""Dynamic admission chain: runs configured policies and webhooks in upstream's order.

mutate:   policies ─▶ webhooks ─▶ (again if something changed: plugins ─▶ policies ─▶ webhooks)
validate: policies ─▶ webhooks
"""

from __future__ import annotations

from collections.abc import Sequence
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
from kubeloop.apiserver.admission.dynamic.webhooks.caller import WebhookCaller
from kubeloop.apiserver.admission.dynamic.webhooks.dispatcher import WebhookDispatcher
from kubeloop.apiserver.admission.dynamic.webhooks.hooks import WebhookAccessor, hooks_of
from kubeloop.apiserver.admission.lookup import RegistryLookup
from kubeloop.apiserver.admission.setup import AdmissionSetup
from kubeloop.apiserver.apiextensions.conversion.converter import convert
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.background.offload import WorkerThread
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.webhook_client.client_config import WebhookClients
from kubeloop.clock import Clock
from kubeloop.store import StoreEvent


class DynamicAdmission:
    """Configured policies and webhooks; installed in the chain of plugins only while there are any."""

    def __init__(
        self,
        registry: StorageRegistry,
        chain: AdmissionChain,
        authorizer: UnionAuthorizer,
        clock: Clock,
        aside: WorkerThread,
        metrics: AdmissionMetrics,
    ) -> None:
        self._registry = registry
        self._chain = chain
        self._clock = clock
        self._metrics = metrics
        self._lookup = RegistryLookup(registry)
        self._setup = chain.setup or AdmissionSetup()
        self._mutating_clients = self._make_clients("MutatingAdmissionWebhook", clock)
        self._validating_clients = self._make_clients("ValidatingAdmissionWebhook", clock)
        self._matcher = Matcher(self._lookup, self._equivalents)
        judge = ExpressionEvaluator(aside, metrics, clock)
        self._mutating_webhook_dispatcher = WebhookDispatcher(
            WebhookCaller(self._mutating_clients, clock), self._matcher, authorizer, judge
        )
        self._validating_webhook_dispatcher = WebhookDispatcher(
            WebhookCaller(self._validating_clients, clock), self._matcher, authorizer, judge
        )
        self._mutating_dispatcher = MutatingPolicyDispatcher(self._matcher, registry, authorizer, judge)
        self._validating_dispatcher = ValidatingPolicyDispatcher(self._matcher, registry, authorizer, judge)
        self._mutating_webhooks: Sequence[WebhookAccessor] = ()
        self._validating_webhooks: Sequence[WebhookAccessor] = ()
        self._mutating_policies: Sequence[MutatingPolicy] = ()
        self._validating_policies: Sequence[ValidatingPolicy] = ()

    def on_events(self, _events: Sequence[StoreEvent]) -> None:
        """Load everything again: few objects, and policies refer to each other."""
        self.load()

    def load(self) -> None:
        """Load the policies and webhooks."""
        self._matcher.clear()
        enabled = self._setup.enabled
        if "MutatingAdmissionWebhook" in enabled:
            self._mutating_webhooks = hooks_of(self._every("mutatingwebhookconfigurations"))
        if "ValidatingAdmissionWebhook" in enabled:
            self._validating_webhooks = hooks_of(self._every("validatingwebhookconfigurations"))
        started = self._clock.monotonic()
        if "MutatingAdmissionPolicy" in enabled:
            self._mutating_policies = self._policies(MutatingPolicy, "mutating")
        if "ValidatingAdmissionPolicy" in enabled:
            self._validating_policies = self._policies(ValidatingPolicy, "validating")
        if self._mutating_policies or self._validating_policies:
            self._metrics.cel_compilation.observe(self._clock.monotonic() - started)
        self._chain.dynamic_mutate = self._mutate if self._mutating_webhooks or self._mutating_policies else None
        self._chain.dynamic_validate = (
            self._validate if self._validating_webhooks or self._validating_policies else None
        )

    def close(self) -> None:
        """Close the connections to webhooks."""
        self._mutating_clients.close()
        self._validating_clients.close()

    async def _mutate(self, attempt: Attributes) -> None:
        subject = VersionedAttributes(attempt, convert, settled=False)
        reinvocation = Reinvocation()
        policies, webhooks = ReinvocationContext(reinvocation), ReinvocationContext(reinvocation)
        await self._mutate_once(subject, reinvocation, policies, webhooks)
        if reinvocation.is_needed:
            reinvocation.is_second = True
            waiting = self._chain.admit(attempt)
            if waiting is not None:
                await waiting
            await self._mutate_once(subject, reinvocation, policies, webhooks)

    async def _mutate_once(
        self,
        subject: VersionedAttributes,
        reinvocation: Reinvocation,
        policies: ReinvocationContext,
        webhooks: ReinvocationContext,
    ) -> None:
        qualified = subject.attributes.resource.group_resource
        # Such policies cannot match deletions: an object that is deleted is not mutated.
        is_deletion = subject.attributes.operation == "DELETE"
        if self._mutating_policies and qualified not in EXEMPT_FROM_POLICIES and not is_deletion:
            await self._mutating_dispatcher.mutate(self._mutating_policies, subject, policies)
        if self._mutating_webhooks and qualified not in EXEMPT_FROM_WEBHOOKS:
            await self._mutating_webhook_dispatcher.mutate(self._mutating_webhooks, subject, webhooks, reinvocation)

    async def _validate(self, attempt: Attributes) -> None:
        subject = VersionedAttributes(attempt, convert, settled=True)
        if self._validating_policies and attempt.resource.group_resource not in EXEMPT_FROM_POLICIES:
            await self._validating_dispatcher.validate(self._validating_policies, subject)
        if self._validating_webhooks and attempt.resource.group_resource not in EXEMPT_FROM_WEBHOOKS:
            await self._validating_webhook_dispatcher.validate(self._validating_webhooks, subject)

    def _make_clients(self, plugin: str, clock: Clock) -> WebhookClients:
        """Return the clients of a webhook plugin, with the credentials of its kubeconfig if it has one."""
        users = self._setup.webhook_users.get(plugin)
        if users is None:
            return WebhookClients(self._lookup, clock.random())
        return WebhookClients(self._lookup, clock.random(), users.credentials_for)

    def _policies(self, make: Any, kind: str) -> Any:
        return policies_with_bindings(
            make, self._every(f"{kind}admissionpolicies"), self._every(f"{kind}admissionpolicybindings")
        )

    def _every(self, plural: str) -> list[Any]:
        return self._registry.list_objects(plural, group=GROUP)

    def _equivalents(self, resource: Resource) -> list[Resource]:
        """Return all versions in which the same objects are served."""
        return [
            storage.resource
            for storage in self._registry.storages()
            if storage.resource.key_prefix == resource.key_prefix
        ]
