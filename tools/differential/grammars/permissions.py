# SPDX-License-Identifier: Apache-2.0
"""Permissions: roles and bindings, and what a user with few permissions may read, write, grant and ask with them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tools.differential.case import Step
from tools.differential.grammars.draft import JSON, Draft, create
from tools.differential.seeds import Seed

_GROUP = "rbac.authorization.k8s.io"
_ROOT = f"/apis/{_GROUP}/v1"
_ROLES = f"{_ROOT}/namespaces/{{ns}}/roles"
_BINDINGS = f"{_ROOT}/namespaces/{{ns}}/rolebindings"
_USER = "user-{ns}"
_PROBE: dict[str, Any] = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["probe"]}
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "*")
_API_GROUPS = ("", "apps", _GROUP, "*", "batch", "authentication.k8s.io")
_RESOURCES = ("configmaps", "secrets", "pods", "pods/log", "pods/*", "*", "*/status", "deployments", "roles")
_MORE_RESOURCES = (*_RESOURCES, "rolebindings", "clusterroles", "serviceaccounts", "serviceaccounts/token", "users")
_URLS = ("/healthz", "/metrics", "/logs/*", "*", "/apis/*")
_KINDS = ("User", "Group", "ServiceAccount")


def permissions(rng: random.Random, seeds: Sequence[Seed]) -> Draft:
    """Return a role, a binding of a user to it, and three to five requests of this user."""
    del seeds  # roles are written here
    rules = [_PROBE, *(_rule(rng) for _ in range(rng.choice((1, 2, 2, 3))))]
    steps = [
        create(_ROLES, _role("own", rules)),
        create(_BINDINGS, _binding("own", "Role", "own", [{"kind": "User", "apiGroup": _GROUP, "name": _USER}])),
        Step("GET", "/api/v1/namespaces/{ns}/configmaps/probe", None, _as_user(), 404),
    ]
    actions: tuple[Callable[[random.Random, Sequence[dict[str, Any]]], Step], ...] = (
        _plain_request,
        _plain_request,
        _access_review,
        _access_review,
        _rules_review,
        _granted_role,
        _granted_role,
        _granted_binding,
        _granted_binding,
        _impersonation,
        _subject_review,
    )
    steps += [rng.choice(actions)(rng, rules) for _ in range(rng.choice((3, 4, 5)))]
    cleanup = tuple(f"{_ROOT}/{one}/{{ns}}-more" for one in ("clusterroles", "clusterrolebindings"))
    return Draft(tuple(steps), cleanup)


def _as_user(**more: str) -> dict[str, str]:
    return {"Impersonate-User": _USER, **more}


def _rule(rng: random.Random) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "apiGroups": _some(rng, _API_GROUPS),
        "resources": _some(rng, _MORE_RESOURCES),
        "verbs": _some(rng, _VERBS, 4),
    }
    if rng.random() < 0.2:
        rule["resourceNames"] = _some(rng, ("a", "b", "own", "view"))
    if rng.random() < 0.05:
        del rule[rng.choice(sorted(rule))]
    return rule


def _some(rng: random.Random, values: Sequence[str], most: int = 3) -> list[str]:
    return rng.sample(values, rng.randint(1, most))


def _role(name: str, rules: Any, kind: str = "Role") -> dict[str, Any]:
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": name}, "rules": rules}


def _binding(name: str, role_kind: str, role: str, subjects: Any) -> dict[str, Any]:
    reference = {"apiGroup": _GROUP, "kind": role_kind, "name": role}
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": reference,
        "subjects": subjects,
    }


def _plain_request(rng: random.Random, rules: Sequence[dict[str, Any]]) -> Step:
    """Return a request for some resource, in the namespace or outside of it."""
    del rules
    resource = rng.choice(("configmaps", "secrets", "pods", "serviceaccounts", "endpoints"))
    scope = rng.choice(("/namespaces/{ns}", "/namespaces/{ns}", "/namespaces/default", ""))
    path = f"/api/v1{scope}/{resource}"
    method = rng.choice(("GET", "GET", "DELETE", "POST"))
    if method == "POST":
        return create(f"{path}?dryRun=All", {"metadata": {"name": "a"}}, _as_user())
    if scope != "/namespaces/{ns}" or rng.random() < 0.7:
        path = f"{path}/a" if scope else path
    if method == "DELETE" and scope != "/namespaces/{ns}":
        method = "GET"
    # A whole cluster's list also contains objects of concurrent cases: none of them has this name.
    query = "?fieldSelector=metadata.name%3Dnone" if method == "GET" and not path.endswith("/a") else ""
    return Step(method, path + query, None, _as_user())


def _attributes(rng: random.Random, rules: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the attributes of a review, mostly near those of a rule."""
    if rng.random() < 0.2:
        return {"nonResourceAttributes": {"path": rng.choice(_URLS), "verb": rng.choice(_VERBS)}}
    rule = rng.choice(rules)
    resource, _, subresource = str(rng.choice(rule.get("resources", ["pods"]))).partition("/")
    found = {
        "namespace": rng.choice(("{ns}", "{ns}", "default", "")),
        "verb": rng.choice((*rule.get("verbs", ["get"]), rng.choice(_VERBS))),
        "group": rng.choice(rule.get("apiGroups", [""])),
        "resource": resource,
        "subresource": subresource,
    }
    if rng.random() < 0.4:
        found["name"] = rng.choice((*rule.get("resourceNames", ["a"]), "z"))
    if rng.random() < 0.1:
        selector = {"requirements": [{"key": "a", "operator": rng.choice(("In", "Exists", "Other")), "values": ["b"]}]}
        found[rng.choice(("labelSelector", "fieldSelector"))] = rng.choice((selector, {"rawSelector": "a=b"}))
    return {"resourceAttributes": {key: value for key, value in found.items() if value}}


def _access_review(rng: random.Random, rules: Sequence[dict[str, Any]]) -> Step:
    spec = _attributes(rng, rules) if rng.random() < 0.95 else {}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    return create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body, _as_user())


def _subject_review(rng: random.Random, rules: Sequence[dict[str, Any]]) -> Step:
    """Return a review of another user by the administrator."""
    spec = {"user": rng.choice((_USER, "other", "")), **_attributes(rng, rules)}
    if rng.random() < 0.3:
        spec["groups"] = rng.choice((["system:masters"], ["g"], ["system:authenticated"]))
    is_local = rng.random() < 0.5
    kind = "LocalSubjectAccessReview" if is_local else "SubjectAccessReview"
    scope = "/namespaces/{ns}" if is_local else ""
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return create(f"/apis/authorization.k8s.io/v1{scope}/{kind.lower()}s", body)


def _rules_review(rng: random.Random, rules: Sequence[dict[str, Any]]) -> Step:
    del rules
    spec = {"namespace": rng.choice(("{ns}", "{ns}", "default", ""))}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": spec}
    return create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body, _as_user())


def _granted_role(rng: random.Random, rules: Sequence[dict[str, Any]]) -> Step:
    """Return a role that the user writes, with permissions of its own or more."""
    granted = [rng.choice((rng.choice(rules), _rule(rng))) for _ in range(rng.choice((1, 2)))]
    headers = rng.choice((_as_user(), _as_user(), _writer()))
    if rng.random() < 0.3:
        if rng.random() < 0.3:
            granted.append({"nonResourceURLs": _some(rng, _URLS), "verbs": ["get"]})
        return create(f"{_ROOT}/clusterroles", _role("{ns}-more", granted, "ClusterRole"), headers)
    if rng.random() < 0.2:
        return Step("PUT", f"{_ROLES}/own", _role("own", granted), {**JSON, **headers})
    return create(_ROLES, _role("more", granted), headers)


def _writer() -> dict[str, str]:
    """Return the headers of an account that may write roles, without all permissions that they grant."""
    return {"Impersonate-User": "system:serviceaccount:kube-system:clusterrole-aggregation-controller"}


def _granted_binding(rng: random.Random, rules: Sequence[dict[str, Any]]) -> Step:
    del rules
    kind = rng.choice(_KINDS)
    subject: dict[str, Any] = {"kind": kind, "name": "s"}
    if kind == "ServiceAccount" or rng.random() < 0.1:
        subject["namespace"] = rng.choice(("{ns}", ""))
    elif rng.random() < 0.8:
        subject["apiGroup"] = rng.choice((_GROUP, _GROUP, "x"))
    role_kind, role = rng.choice((("Role", "own"), ("Role", "more"), ("ClusterRole", "view"), ("ClusterRole", "edit")))
    body = _binding("more", role_kind, role, [subject])
    if rng.random() < 0.1:
        body["roleRef"]["name"] = ""
    return create(_BINDINGS, body, rng.choice((_as_user(), _as_user(), {})))


def _impersonation(rng: random.Random, rules: Sequence[dict[str, Any]]) -> Step:
    """Return a request with impersonation headers, some of them incomplete."""
    del rules
    headers = rng.choice(
        (
            {"Impersonate-User": "system:serviceaccount:{ns}:default"},
            {"Impersonate-User": "a", "Impersonate-Group": "system:masters"},
            {"Impersonate-Group": "g"},
            {"Impersonate-User": "a", "Impersonate-Uid": "u"},
            {"Impersonate-Uid": "u"},
            {"Impersonate-User": "a", "Impersonate-Extra-scopes": "view"},
            {"Impersonate-User": "system:anonymous"},
            {"Impersonate-User": "system:node:n", "Impersonate-Group": "system:nodes"},
        )
    )
    if rng.random() < 0.4:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        return create("/apis/authentication.k8s.io/v1/selfsubjectreviews", body, headers)
    path = rng.choice(
        ("/api/v1/namespaces/{ns}/configmaps", "/api/v1/namespaces/{ns}/secrets/a", "/livez/ping", "/apis/x")
    )
    return Step("GET", path, None, headers)
