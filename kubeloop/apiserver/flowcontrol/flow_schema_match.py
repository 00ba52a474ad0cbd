"""Matching of requests to FlowSchemas. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubeloop.apiserver.authorization.attributes import Attributes
from kubeloop.apiserver.flowcontrol.config import NonResourceRule, ResourceRule, Rules, Schema, Subject
from kubeloop.apiserver.request.context import User

_ACCOUNT = "system:serviceaccount:"


def schema_for(asked: Attributes, schemas: Iterable[Schema]) -> Schema | None:
    """Return the first matching schema, or None."""
    return next((one for one in schemas if any(_fits(rules, asked) for rules in one.spec.rules)), None)


def distinguisher(asked: Attributes, schema: Schema) -> str:
    """Return the flow distinguisher of a request: user, namespace or empty."""
    method = schema.spec.distinguisher_method
    if method is None:
        return ""
    return asked.user.name if method.type == "ByUser" else asked.namespace


def _fits(rules: Rules, asked: Attributes) -> bool:
    if not any(_is(asked.user, subject) for subject in rules.subjects):
        return False
    if asked.path is not None:
        return any(_fits_path(rule, asked.verb, asked.path) for rule in rules.non_resource_rules)
    return any(_fits_resource(rule, asked) for rule in rules.resource_rules)


def _is(user: User, subject: Subject) -> bool:
    if subject.kind == "User":
        return subject.user is not None and subject.user.name in ("*", user.name)
    if subject.kind == "Group":
        return subject.group is not None and (subject.group.name == "*" or subject.group.name in user.groups)
    account = subject.service_account
    if subject.kind != "ServiceAccount" or account is None:
        return False
    if account.name == "*":
        return user.name.startswith(f"{_ACCOUNT}{account.namespace}:")
    return user.name == f"{_ACCOUNT}{account.namespace}:{account.name}"


def _fits_resource(rule: ResourceRule, asked: Attributes) -> bool:
    name = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    if not (_has(rule.verbs, asked.verb) and _has(rule.resources, name) and _has(rule.api_groups, asked.group)):
        return False
    return _has(rule.namespaces, asked.namespace) if asked.namespace else rule.cluster_scope


def _fits_path(rule: NonResourceRule, verb: str, path: str) -> bool:
    return _has(rule.verbs, verb) and any(_fits_url(url, path) for url in rule.non_resource_urls)


def _fits_url(url: str, path: str) -> bool:
    return url == "*" or url == path or (url.endswith("/*") and path.startswith(url[:-1]))


def _has(wanted: Sequence[str], given: str) -> bool:
    return "*" in wanted or given in wanted
