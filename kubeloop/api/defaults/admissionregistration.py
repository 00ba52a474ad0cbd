# SPDX-License-Identifier: Apache-2.0
"""Defaults of admission webhooks and admission policies."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.admissionregistration_v1 import (
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    NamedRuleWithOperations,
    RuleWithOperations,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from kubeloop.api.generated.meta_v1 import LabelSelector

_HTTPS = 443
_EVERYTHING = LabelSelector()


def default_validating_webhooks(configuration: ValidatingWebhookConfiguration) -> None:
    """Apply the defaults of a ValidatingWebhookConfiguration."""
    for webhook in configuration.webhooks:
        _default_webhook(webhook)


def default_mutating_webhooks(configuration: MutatingWebhookConfiguration) -> None:
    """Apply the defaults of a MutatingWebhookConfiguration."""
    for webhook in configuration.webhooks:
        _default_webhook(webhook)
        if webhook.reinvocation_policy is None:
            force_setattr(webhook, "reinvocation_policy", "Never")


def default_policy(policy: ValidatingAdmissionPolicy | MutatingAdmissionPolicy) -> None:
    """Apply the defaults of an admission policy."""
    spec = policy.spec
    if spec.failure_policy is None:
        force_setattr(spec, "failure_policy", "Fail")
    if spec.match_constraints is not None:
        _default_match_resources(spec.match_constraints)


def default_binding(binding: ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding) -> None:
    """Apply the defaults of an admission policy binding."""
    if binding.spec.match_resources is not None:
        _default_match_resources(binding.spec.match_resources)


def _default_webhook(webhook: ValidatingWebhook | MutatingWebhook) -> None:
    if webhook.failure_policy is None:
        force_setattr(webhook, "failure_policy", "Fail")
    _default_matching(webhook)
    if webhook.timeout_seconds is None:
        force_setattr(webhook, "timeout_seconds", 10)
    service = webhook.client_config.service
    if service is not None and service.port is None:
        force_setattr(service, "port", _HTTPS)
    _default_rules(webhook.rules)


def _default_match_resources(match: MatchResources) -> None:
    _default_matching(match)
    _default_rules(match.resource_rules)
    _default_rules(match.exclude_resource_rules)


def _default_matching(match: MatchResources | ValidatingWebhook | MutatingWebhook) -> None:
    if match.match_policy is None:
        force_setattr(match, "match_policy", "Equivalent")
    if match.namespace_selector is None:
        force_setattr(match, "namespace_selector", _EVERYTHING)
    if match.object_selector is None:
        force_setattr(match, "object_selector", _EVERYTHING)


def _default_rules(rules: Iterable[RuleWithOperations | NamedRuleWithOperations]) -> None:
    for rule in rules:
        if rule.scope is None:
            force_setattr(rule, "scope", "*")
