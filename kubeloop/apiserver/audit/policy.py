# SPDX-License-Identifier: Apache-2.0
"""Audit policy (audit.k8s.io/v1 Policy): the first matching rule decides the level of a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.authorization.rules import covers_path

LEVELS = ("None", "Metadata", "Request", "RequestResponse")
STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
# Resources that hold credentials: logged at the Metadata level at most.
_SECRET = frozenset(
    {("", "secrets", ""), ("", "serviceaccounts", "token"), ("authentication.k8s.io", "tokenreviews", "")}
)


class AuditPolicyError(ValueError):
    """Error for an invalid policy; the message is one sentence for the operator."""


class GroupResources(msgspec.Struct, frozen=True, rename="camel"):
    """Resources of one group; none listed means all."""

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class AuditRule(msgspec.Struct, frozen=True, rename="camel"):
    """Policy rule: level, and the requests that it matches."""

    level: str = ""
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool | None = None

    def matches(self, asked: AuthorizationAttributes) -> bool:
        """Return True if the rule matches a request."""
        user = asked.user
        if self.users and user.name not in self.users:
            return False
        if self.user_groups and not any(group in self.user_groups for group in user.groups):
            return False
        if self.verbs and asked.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return asked.path is None and self._fits_resource(asked)
        if self.non_resource_urls:
            return asked.path is not None and any(covers_path(one, asked.path) for one in self.non_resource_urls)
        return True

    def _fits_resource(self, asked: AuthorizationAttributes) -> bool:
        if self.namespaces and asked.namespace not in self.namespaces:
            return False
        return not self.resources or any(_fits(one, asked) for one in self.resources)


class AuditPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """Audit policy file."""

    kind: str = ""
    api_version: str = ""
    rules: tuple[AuditRule, ...] = ()
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool = False

    def evaluate(self, asked: AuthorizationAttributes) -> RequestAuditConfig:
        """Return level and options for a request."""
        for rule in self.rules:
            if rule.matches(asked):
                level = LEVELS.index(rule.level)
                if (asked.group, asked.resource, asked.subresource) in _SECRET:
                    level = min(level, METADATA)
                omit = rule.omit_managed_fields
                omit_managers = self.omit_managed_fields if omit is None else omit
                return RequestAuditConfig(level, frozenset(self.omit_stages + rule.omit_stages), omit_managers)
        return RequestAuditConfig(0, frozenset(self.omit_stages), self.omit_managed_fields)


class RequestAuditConfig(NamedTuple):
    """Audit level and options of one request."""

    level: int  # an index into LEVELS
    omit_stages: frozenset[str]
    omit_managed_fields: bool


METADATA, REQUEST, RESPONSE = 1, 2, 3


def read_policy(path: Path) -> AuditPolicy:
    """Read a policy file in YAML or JSON; raises PolicyError."""
    import yaml

    try:
        document: Any = yaml.safe_load(path.read_text())
        policy = msgspec.convert(document, AuditPolicy)
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise AuditPolicyError(f"{path} is not an audit policy: {error}") from None
    problem = _problem_of(policy)
    if problem:
        raise AuditPolicyError(f"{path}: {problem}")
    return policy


def _problem_of(policy: AuditPolicy) -> str:
    if (policy.api_version, policy.kind) != ("audit.k8s.io/v1", "Policy"):
        return f"unknown group version field {policy.api_version}, Kind={policy.kind} in policy"
    if not policy.rules:
        return "loaded illegal policy with 0 rules"
    stages = [*policy.omit_stages, *(stage for rule in policy.rules for stage in rule.omit_stages)]
    for stage in stages:
        if stage not in STAGES:
            return f"{stage!r} is not one of the stages {', '.join(STAGES)}"
    for index, rule in enumerate(policy.rules):
        problem = _problem_of_rule(rule)
        if problem:
            return f"rules[{index}]: {problem}"
    return ""


def _problem_of_rule(rule: AuditRule) -> str:
    if rule.level not in LEVELS:
        return f"{rule.level!r} is not one of the levels {', '.join(LEVELS)}"
    if rule.non_resource_urls and (rule.resources or rule.namespaces):
        return "rules cannot apply to both regular resources and non-resource URLs"
    for url in rule.non_resource_urls:
        if url != "*" and not url.startswith("/"):
            return "non-resource URL rules must begin with a '/' character"
        if "*" in url[:-1]:
            return "non-resource URL wildcards '*' must be the final character of the rule"
    for listed in rule.resources:
        if listed.resource_names and not listed.resources:
            return "using resourceNames requires at least one resource"
    return ""


def _fits(listed: GroupResources, asked: AuthorizationAttributes) -> bool:
    if listed.group not in (asked.group, "*"):
        return False
    if not listed.resources:
        return True
    if listed.resource_names and asked.name not in listed.resource_names:
        return False
    combined = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    wanted = {combined, "*", f"{asked.resource}/*"}
    if asked.subresource:
        wanted.add(f"*/{asked.subresource}")
    return not wanted.isdisjoint(listed.resources)
