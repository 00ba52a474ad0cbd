# SPDX-License-Identifier: Apache-2.0
"""Validation of webhook configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kubeloop.api.generated import admissionregistration_v1 as admission_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.meta.name_rules import check_dns1035_label, validate_fully_qualified_name
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.extensions.match_resources import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    validate_match_conditions,
    validate_rule,
)
from kubeloop.api.validation.extensions.webhook_client import validate_client_config
from kubeloop.api.validation.shared.rules import ValidationRules

Configuration = admission_v1.ValidatingWebhookConfiguration | admission_v1.MutatingWebhookConfiguration
Webhook = admission_v1.ValidatingWebhook | admission_v1.MutatingWebhook

_WEBHOOKS: Final = FieldPath("webhooks")
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_NO_SIDE_EFFECTS: Final = frozenset(("None", "NoneOnDryRun"))
_SIDE_EFFECTS: Final = _NO_SIDE_EFFECTS | {"Some", "Unknown"}
_REINVOCATION: Final = frozenset(("IfNeeded", "Never"))


@dataclass(frozen=True)
class _Leniency:
    """Violations that an update may keep because the stored configuration has them."""

    side_effects: bool = False
    unknown_review_versions: bool = False
    repeated_names: bool = False
    any_label_values: bool = False
    match_conditions: bool = False


def _leniency_of(new: Configuration, old: Configuration) -> _Leniency:
    names = [hook.name for hook in old.webhooks]
    return _Leniency(
        side_effects=any(hook.side_effects not in _NO_SIDE_EFFECTS for hook in old.webhooks),
        unknown_review_versions=any(_knows_no_version(hook) for hook in old.webhooks),
        repeated_names=len(set(names)) < len(names),
        any_label_values=any(_selector_errors(hook, _WEBHOOKS, any_values=False) for hook in old.webhooks),
        match_conditions=[hook.match_conditions for hook in new.webhooks]
        == [hook.match_conditions for hook in old.webhooks],
    )


def _knows_no_version(hook: Webhook) -> bool:
    versions = hook.admission_review_versions or ()
    return bool(versions) and not set(versions) & set(_REVIEW_VERSIONS)


def _validate_create(obj: Configuration) -> FieldErrors:
    return _validate_webhooks(obj, _Leniency())


def _validate_update(new: Configuration, old: Configuration) -> FieldErrors:
    return _validate_webhooks(new, _leniency_of(new, old))


def _validate_webhooks(obj: Configuration, lenient: _Leniency) -> FieldErrors:
    errors: FieldErrors = []
    names: set[str] = set()
    webhooks: tuple[Webhook, ...] = obj.webhooks
    for index, hook in enumerate(webhooks):
        at = _WEBHOOKS.index(index)
        errors += _validate_webhook(hook, lenient, at)
        errors += _validate_review_versions(hook, lenient, at.child("admissionReviewVersions"))
        if hook.name in names and hook.name and not lenient.repeated_names:
            errors.append(duplicate(at.child("name"), hook.name))
        names.add(hook.name)
    return errors


def _validate_webhook(hook: Webhook, lenient: _Leniency, path: FieldPath) -> FieldErrors:
    errors = validate_fully_qualified_name(path.child("name"), hook.name)
    for index, rule in enumerate(hook.rules):
        errors += validate_rule(rule, path.child("rules").index(index))
    side_effects = _SIDE_EFFECTS if lenient.side_effects else _NO_SIDE_EFFECTS
    if hook.side_effects is None:
        detail = f"must specify one of {', '.join(sorted(side_effects))}"
        errors.append(required(path.child("sideEffects"), detail))
    choices: list[tuple[str, str | None, frozenset[str]]] = [
        ("failurePolicy", hook.failure_policy, FAILURE_POLICIES),
        ("matchPolicy", hook.match_policy, MATCH_POLICIES),
        ("sideEffects", hook.side_effects, side_effects),
    ]
    if isinstance(hook, admission_v1.MutatingWebhook):
        choices.append(("reinvocationPolicy", hook.reinvocation_policy, _REINVOCATION))
    for name, value, supported in choices:
        if value is not None and value not in supported:
            errors.append(not_supported(path.child(name), value, supported))
    seconds: Any = hook.timeout_seconds
    if seconds is not None and not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(path.child("timeoutSeconds"), seconds, detail))
    errors += _selector_errors(hook, path, lenient.any_label_values)
    errors += validate_client_config(hook.client_config, path.child("clientConfig"))
    if not lenient.match_conditions:
        errors += validate_match_conditions(hook.match_conditions, path.child("matchConditions"))
    return errors


def _selector_errors(hook: Webhook, path: FieldPath, any_values: bool) -> FieldErrors:
    errors = validate_label_selector(hook.namespace_selector, path.child("namespaceSelector"), any_values)
    return errors + validate_label_selector(hook.object_selector, path.child("objectSelector"), any_values)


def _validate_review_versions(hook: Webhook, lenient: _Leniency, path: FieldPath) -> FieldErrors:
    versions = hook.admission_review_versions or ()
    known = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        return [required(path, f"must specify one of {known}")]
    errors: FieldErrors = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(invalid(path.index(index), version, "duplicate version"))
            continue
        errors += [invalid(path.index(index), version, message) for message in check_dns1035_label(version)]
    if _knows_no_version(hook) and not lenient.unknown_review_versions:
        errors.append(invalid(path, versions, f"must include at least one of {known}"))
    return errors


WEBHOOKS = ValidationRules(_validate_create, _validate_update)
