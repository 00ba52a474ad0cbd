# SPDX-License-Identifier: Apache-2.0
"""AuthorizationConfiguration files: decoded, validated with upstream's messages, and turned into authorizers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kubeloop.api.expressions.access import ExpressionError, compile_match_condition
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldError, FieldPath, aggregate
from kubeloop.api.meta.name_rules import check_dns1123_subdomain
from kubeloop.api.scalars.duration import SECOND, DurationError, format_duration, parse_duration
from kubeloop.apiserver.authorization import MODES, UnionAuthorizer
from kubeloop.apiserver.authorization.factory import WEBHOOK, AuthorizerConfig, AuthorizerFactory
from kubeloop.apiserver.authorization.match_conditions import WebhookMatchConditions
from kubeloop.apiserver.authorization.webhook import WebhookAuthorizerConfig
from kubeloop.apiserver.background.file_reloader import Contents
from kubeloop.apiserver.config_file import ConfigFileError, StrictStruct, decode_config

VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_MAX_CONDITIONS: Final = 64
_MAX_TIMEOUT: Final = 30 * SECOND
_KUBECONFIG, _IN_CLUSTER = "KubeConfigFile", "InClusterConfig"


class WebhookConnectionInfo(StrictStruct, frozen=True):
    """Way to reach a webhook."""

    type: str = ""
    kubeconfig_file: str | None = msgspec.field(default=None, name="kubeConfigFile")


class WebhookMatchCondition(StrictStruct, frozen=True):
    """Expression that must hold for a webhook to be asked."""

    expression: str = ""


class WebhookConfiguration(StrictStruct, frozen=True):
    """Configuration of a webhook authorizer; the defaults are those of an empty file."""

    authorized_ttl: str = msgspec.field(default="5m", name="authorizedTTL")
    cache_authorized_requests: bool = True
    unauthorized_ttl: str = msgspec.field(default="30s", name="unauthorizedTTL")
    cache_unauthorized_requests: bool = True
    timeout: str = ""
    subject_access_review_version: str = ""
    match_condition_subject_access_review_version: str = ""
    failure_policy: str = ""
    connection_info: WebhookConnectionInfo = WebhookConnectionInfo()
    match_conditions: tuple[WebhookMatchCondition, ...] = ()


class AuthorizerConfiguration(StrictStruct, frozen=True):
    """One authorizer of the chain."""

    type: str = ""
    name: str = ""
    webhook: WebhookConfiguration | None = None


class AuthorizationConfiguration(StrictStruct, frozen=True):
    """AuthorizationConfiguration file."""

    kind: str = ""
    api_version: str = ""
    authorizers: tuple[AuthorizerConfiguration, ...] = ()


def parse_authorization_configuration(data: bytes, required_types: Sequence[str] = ()) -> list[AuthorizerConfig]:
    """Decode and validate a file's content; raises ConfigFileError.

    The required types are those of the server's start, which a reloaded file must have, too.
    """
    try:
        config = decode_config(data, "AuthorizationConfiguration", VERSIONS, AuthorizationConfiguration)
    except ConfigFileError as error:
        raise ConfigFileError(f"failed to load AuthorizationConfiguration from file: {error}") from None
    problems = [str(error) for error in configuration_errors(config)]
    if not problems:
        problems = [
            f"expected name {one.type.lower()} for authorizer {one.type} instead of {one.name}"
            for one in config.authorizers
            if one.type != WEBHOOK and one.name != one.type.lower()
        ]
        missing = sorted(set(required_types) - {one.type for one in config.authorizers})
        problems += [f"missing required types: [{' '.join(missing)}]"] if missing else []
    if problems:
        raise ConfigFileError(aggregate(problems))
    return [_authorizer_config(one) for one in config.authorizers]


class AuthorizationReloader:
    """Replaces the authorizers of a union by those of a changed file."""

    def __init__(self, union: UnionAuthorizer, factory: AuthorizerFactory, initial: Sequence[AuthorizerConfig]) -> None:
        self._union = union
        self._factory = factory
        self._types = {one.type for one in initial} - {WEBHOOK}

    def reload(self, contents: Contents) -> None:
        """Use a changed file; raises ConfigFileError or ValueError."""
        configs = parse_authorization_configuration(contents[0], sorted(self._types))
        for one in configs:
            if one.type in ("Node", "RBAC") and one.type not in self._types:
                told = "is not allowed if it was not enabled at initial server startup"
                raise ConfigFileError(f"authorizer type {one.type} {told}")
        self._union.replace(self._factory.authorizers(configs))


def configuration_errors(config: AuthorizationConfiguration) -> Iterator[FieldError]:
    """Yield the field errors of a configuration."""
    root = FieldPath("authorizers")
    if not config.authorizers:
        yield field_path.required(root, "at least one authorization mode must be defined")
    types: set[str] = set()
    names: set[str] = set()
    for index, one in enumerate(config.authorizers):
        path = root.index(index)
        if not one.type:
            yield field_path.required(path.child("type"))
        elif one.type not in MODES:
            yield field_path.not_supported(path.child("type"), one.type, frozenset(MODES))
        elif one.type in types and one.type != WEBHOOK:
            yield field_path.duplicate(path.child("type"), one.type)
        else:
            types.add(one.type)
            yield from _authorizer_errors(one, path, names)


def _authorizer_errors(one: AuthorizerConfiguration, path: FieldPath, names: set[str]) -> Iterator[FieldError]:
    if not one.name:
        yield field_path.required(path.child("name"))
    elif one.name in names:
        yield field_path.duplicate(path.child("name"), one.name)
    elif problems := check_dns1123_subdomain(one.name):
        told = f"authorizer name is invalid: {', '.join(problems)}"
        yield field_path.invalid(path.child("name"), one.name, told)
    names.add(one.name)
    if one.type != WEBHOOK:
        if one.webhook is not None:
            told = "may only be specified when type=Webhook"
            yield field_path.invalid(path.child("webhook"), "non-null", told)
    elif one.webhook is None:
        yield field_path.required(path.child("webhook"), "required when type=Webhook")
    else:
        yield from _webhook_errors(one.webhook, path)


def _webhook_errors(webhook: WebhookConfiguration, path: FieldPath) -> Iterator[FieldError]:
    yield from _duration_errors(webhook.timeout, path.child("timeout"), _MAX_TIMEOUT)
    yield from _duration_errors(webhook.authorized_ttl, path.child("authorizedTTL"))
    yield from _duration_errors(webhook.unauthorized_ttl, path.child("unauthorizedTTL"))
    yield from _choice_errors(
        webhook.subject_access_review_version, path.child("subjectAccessReviewVersion"), ("v1", "v1beta1")
    )
    version = webhook.match_condition_subject_access_review_version
    where = path.child("matchConditionSubjectAccessReviewVersion")
    if version:
        yield from _choice_errors(version, where, ("v1",))
    elif webhook.match_conditions:
        yield field_path.required(where, "required if match conditions are specified")
    yield from _choice_errors(webhook.failure_policy, path.child("failurePolicy"), ("NoOpinion", "Deny"))
    yield from _connection_errors(webhook.connection_info, path.child("connectionInfo"))
    yield from _condition_errors(webhook.match_conditions, path.child("matchConditions"))


def _duration_errors(text: str, path: FieldPath, maximum: int = 0) -> Iterator[FieldError]:
    try:
        nanoseconds = parse_duration(text) if text else 0
    except DurationError as error:
        yield field_path.invalid(path, text, str(error))
        return
    if nanoseconds == 0:
        yield field_path.required(path)
    elif nanoseconds < 0 or (maximum and nanoseconds > maximum):
        told = f"must be > 0s and <= {maximum // SECOND}s" if maximum else "must be > 0s"
        yield field_path.invalid(path, format_duration(nanoseconds), told)


def _choice_errors(value: str, path: FieldPath, choices: Sequence[str]) -> Iterator[FieldError]:
    if not value:
        yield field_path.required(path)
    elif value not in choices:
        yield field_path.not_supported(path, value, choices)


def _connection_errors(info: WebhookConnectionInfo, path: FieldPath) -> Iterator[FieldError]:
    file, where = info.kubeconfig_file, path.child("kubeConfigFile")
    if info.type == _IN_CLUSTER:
        # Upstream accepts it and then fails to start.
        yield field_path.not_supported(path.child("type"), info.type, (_KUBECONFIG,))
    elif info.type != _KUBECONFIG:
        yield from _choice_errors(info.type, path.child("type"), (_IN_CLUSTER, _KUBECONFIG))
    elif not file:
        yield field_path.required(where)
    elif not os.path.isabs(file):
        yield field_path.invalid(where, file, "must be an absolute path")
    elif not os.path.exists(file):
        yield field_path.invalid(where, file, f"error loading file: stat {file}: no such file or directory")
    elif not os.path.isfile(file):
        yield field_path.invalid(where, file, "must be a regular file")


def _condition_errors(conditions: Sequence[WebhookMatchCondition], path: FieldPath) -> Iterator[FieldError]:
    if len(conditions) > _MAX_CONDITIONS:
        yield field_path.too_many(path, len(conditions), _MAX_CONDITIONS)
        return
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        text, where = condition.expression, path.index(index).child("expression")
        if not text.strip():
            yield field_path.required(where)
        elif text in seen:
            yield field_path.duplicate(where, text)
        else:
            seen.add(text)
            try:
                compile_match_condition(text)
            except ExpressionError as error:
                yield field_path.invalid(where, text, str(error))


def _authorizer_config(one: AuthorizerConfiguration) -> AuthorizerConfig:
    webhook = one.webhook
    if webhook is None:
        return AuthorizerConfig(one.type, one.name)
    file = webhook.connection_info.kubeconfig_file
    assert file is not None
    config = WebhookAuthorizerConfig(
        Path(file),
        webhook.subject_access_review_version,
        _seconds(webhook.authorized_ttl) if webhook.cache_authorized_requests else 0.0,
        _seconds(webhook.unauthorized_ttl) if webhook.cache_unauthorized_requests else 0.0,
        _seconds(webhook.timeout),
        webhook.failure_policy == "Deny",
    )
    expressions = [condition.expression for condition in webhook.match_conditions]
    return AuthorizerConfig(one.type, one.name, config, WebhookMatchConditions(expressions) if expressions else None)


def _seconds(text: str) -> float:
    return parse_duration(text) / SECOND
