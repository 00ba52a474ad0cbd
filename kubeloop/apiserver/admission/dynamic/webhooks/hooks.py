# SPDX-License-Identifier: Apache-2.0
"""Configured webhooks, prepared for matching."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kubeloop.api.expressions.admission import BOOL_RESULT, CompiledExpression, Scope, compile_in_scope
from kubeloop.api.generated import admissionregistration_v1 as admission_v1
from kubeloop.apiserver.admission.dynamic.match_rules import MatchCriteria, selector_or_everything

Configuration = admission_v1.MutatingWebhookConfiguration | admission_v1.ValidatingWebhookConfiguration
Webhook = admission_v1.MutatingWebhook | admission_v1.ValidatingWebhook
_SCOPE = Scope()


@dataclass(frozen=True, eq=False)
class WebhookAccessor:
    """Webhook of a configuration; `index` is its position in the calling order."""

    configuration: str
    index: int
    spec: Webhook

    @property
    def name(self) -> str:
        """Name of the webhook."""
        return self.spec.name

    @property
    def ignores_failures(self) -> bool:
        """True if the failure policy is Ignore."""
        return self.spec.failure_policy == "Ignore"

    @property
    def is_reinvocable(self) -> bool:
        """True if the reinvocation policy is IfNeeded."""
        return isinstance(self.spec, admission_v1.MutatingWebhook) and self.spec.reinvocation_policy == "IfNeeded"

    @cached_property
    def criteria(self) -> MatchCriteria:
        """Match criteria of the webhook."""
        spec = self.spec
        return MatchCriteria(
            spec.rules,
            selector_or_everything(spec.namespace_selector),
            selector_or_everything(spec.object_selector),
            spec.match_policy == "Equivalent",
        )

    @cached_property
    def conditions(self) -> tuple[CompiledExpression, ...]:
        """Compiled match conditions."""
        return tuple(
            compile_in_scope(one.expression.strip(), _SCOPE, BOOL_RESULT) for one in self.spec.match_conditions
        )


def hooks_of(configurations: Iterable[Configuration]) -> Sequence[WebhookAccessor]:
    """Return the webhooks in calling order: by the configurations' names, then as listed there."""
    return tuple(WebhookAccessor(name, index, spec) for index, (name, spec) in enumerate(_ordered(configurations)))


def _ordered(configurations: Iterable[Configuration]) -> Iterator[tuple[str, Webhook]]:
    for configuration in sorted(configurations, key=lambda one: one.metadata.name):
        for spec in configuration.webhooks:
            yield configuration.metadata.name, spec
