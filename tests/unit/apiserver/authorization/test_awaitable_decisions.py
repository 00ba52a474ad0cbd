# SPDX-License-Identifier: Apache-2.0
"""An authorizer whose decisions have to be awaited is asked wherever any other is."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubeloop.api import errors
from kubeloop.api.kinds import RESOURCES
from kubeloop.api.requests import Call
from kubeloop.apiserver.audit import Auditor
from kubeloop.apiserver.audit.backends import LogBackend
from kubeloop.apiserver.audit.policy import read_policy
from kubeloop.apiserver.authorization import NamedAuthorizer, UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import NO_OPINION, AuthorizationAttributes, AuthorizationDecision
from kubeloop.apiserver.authorization.rbac import RBACAuthorizer
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.metrics import MetricRegistry
from tests.unit.apiserver.authorization.test_escalation import signing_request
from tests.unit.apiserver.conftest import ManualClock
from tests.unit.apiserver.secured_api import SecuredApi, refused

PODS = "/api/v1/namespaces/shop/pods"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PODS_RESOURCE = next(one for one in RESOURCES if one.plural == "pods" and not one.group)
ALLOWED = AuthorizationDecision(True, "because")


class DelayedAuthorizer:
    """Decides a moment later, from `verb resource` or `verb path`."""

    def __init__(self) -> None:
        self.decisions: dict[str, AuthorizationDecision] = {}
        self.asked: list[str] = []

    async def decide(self, asked: AuthorizationAttributes) -> AuthorizationDecision:
        what = f"{asked.verb} {asked.path or asked.resource}"
        self.asked.append(what)
        await asyncio.sleep(0)
        return self.decisions.get(what, NO_OPINION)


class DelayedApi(SecuredApi):
    def union(self) -> UnionAuthorizer:
        self.distant = DelayedAuthorizer()
        rbac = RBACAuthorizer(self.registry, self.lookup)
        return UnionAuthorizer([NamedAuthorizer("far", self.distant), NamedAuthorizer("rbac", rbac)], rbac)

    def allow(self, *what: str) -> None:
        self.distant.decisions |= dict.fromkeys(what, ALLOWED)


class AuditedApi(DelayedApi):
    lines: list[bytes]

    @property
    def auditor(self):
        self.lines = []
        log = type("Log", (), {"write": self.lines.append})()
        return Auditor(self.policy, LogBackend(log), self.clock, MetricRegistry())


@pytest.fixture
def api():
    with asyncio.Runner() as runner:
        yield DelayedApi(runner, ManualClock())


@pytest.fixture
def bob(api):
    return api.knows("bob")


def test_request_is_allowed_forbidden_or_left_to_the_next_authorizer(api, bob):
    assert refused(api.get(PODS, token=bob)).endswith('in the namespace "shop"')
    api.allow("list pods", "get /version")
    assert api.get(PODS, token=bob).status == 200
    assert api.get("/version", token=bob).status == 200
    assert api.get("/metrics", token=bob).status == 403
    api.may("get: pods", user=bob)
    assert api.get(f"{PODS}/a", token=bob).status == 404
    api.distant.decisions["get pods"] = AuthorizationDecision(False, "never", denied=True)
    assert refused(api.get(f"{PODS}/a", token=bob)).endswith('in the namespace "shop": never')


def test_reasons_of_authorizers_without_opinion_are_named(api, bob):
    api.distant.decisions["list pods"] = AuthorizationDecision(False, "not today")
    assert refused(api.get(PODS, token=bob)).endswith('in the namespace "shop": far: not today')


def test_missing_resource_is_hidden_from_those_who_are_not_authorized(api, bob):
    assert api.get("/apis/nothing/v1/things", token=bob).status == 403
    api.allow("list things")
    assert api.get("/apis/nothing/v1/things", token=bob).status == 404


def test_failure_of_an_authorizer_is_an_internal_error_unless_another_allows(api, bob):
    api.distant.decisions["list pods"] = AuthorizationDecision(False, error="<far away>")
    answer = api.get(f"{PODS}?limit=1", token=bob)
    told = b'Internal Server Error: "/api/v1/namespaces/shop/pods?limit=1": &lt;far away&gt;\n'
    assert (answer.status, answer.body) == (500, told)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    api.may("list: pods", user=bob)
    assert api.get(PODS, token=bob).status == 200


def test_administrators_are_allowed_without_a_question(api):
    assert api.get(PODS).status == 200
    assert api.distant.asked == []


def test_access_review_has_the_whole_decision(api):
    def review(**attributes):
        spec = {"user": "bob", "resourceAttributes": {"verb": "list", "resource": "pods", **attributes}}
        return api.made(REVIEWS, {"spec": spec})["status"]

    assert review() == {"allowed": False}
    api.allow("list pods")
    assert review() == {"allowed": True, "reason": "because"}
    api.distant.decisions["list pods"] = AuthorizationDecision(False, "no", denied=True)
    assert review() == {"allowed": False, "denied": True, "reason": "no"}
    api.distant.decisions["list pods"] = AuthorizationDecision(False, error="broken")
    assert review() == {"allowed": False, "evaluationError": "broken"}
    path = {"user": "bob", "nonResourceAttributes": {"verb": "get", "path": "/x"}}
    api.allow("get /x")
    assert api.made(REVIEWS, {"spec": path})["status"]["allowed"]


def test_call_within_the_process_is_authorized(api):
    transport = InProcessTransport(api.server, User("bob"))

    def call():
        return api._runner.run(transport.call(Call(verb="list", resource=PODS_RESOURCE, namespace="shop")))

    async def first_batch():
        async for batch in transport.watch(Call(verb="watch", resource=PODS_RESOURCE, namespace="shop")):
            return batch
        return None

    with pytest.raises(errors.Forbidden):
        call()
    with pytest.raises(errors.Forbidden):
        api._runner.run(first_batch())
    with pytest.raises(errors.Forbidden):
        api._runner.run(transport.document("/version"))
    api.allow("list pods", "get /version")
    assert call().items == ()
    assert api._runner.run(transport.document("/version"))["major"] == "1"


def test_impersonation_needs_permission(api, bob):
    api.allow("list pods")
    assert api.get(PODS, token=bob, impersonate_user="eve").status == 403
    api.allow("impersonate users")
    assert api.get(PODS, token=bob, impersonate_user="eve").status == 200


def test_role_may_be_granted_by_whom_the_authorizer_lets_escalate(api, bob):
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    role = {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]}
    api.allow("create clusterroles")
    assert "not currently held" in refused(api.post(roles, role, token=bob))
    api.allow("escalate clusterroles")
    assert api.post(roles, role, token=bob).status == 201


def test_admission_plugin_asks_about_a_signer(api, bob):
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    made = api.made(path, {"metadata": {"name": "c"}, "spec": signing_request("example.com/one")})
    made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "R"}]}
    api.allow("update certificatesigningrequests")
    told = refused(api.put(f"{path}/c/approval", made, token=bob))
    assert told.endswith('user not permitted to approve requests with signerName "example.com/one"')
    api.allow("approve signers")
    assert api.put(f"{path}/c/approval", made, token=bob).status == 200


def test_expression_of_a_policy_is_evaluated_with_every_decision(api, bob):
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    checks = "[!authorizer.path('/a').check('get').allowed(), authorizer.path('/b').check('get').allowed()].all(x, x)"
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": checks, "message": "no"}]}
    api.made(f"{group}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    api.made(f"{group}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": binding})
    api.namespace("shop")
    api.allow("create configmaps")
    maps = "/api/v1/namespaces/shop/configmaps"
    body = {"metadata": {"name": "m"}}
    assert api.post(maps, body, token=bob).status == 422
    assert api.distant.asked.count("get /a") == api.distant.asked.count("get /b") == 1
    api.allow("get /b")
    assert api.post(maps, body, token=bob).status == 201


def test_audit_has_the_decision_which_is_made_once(tmp_path):
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
    (tmp_path / "policy").write_text(json.dumps({**policy, "rules": [{"level": "Metadata"}]}))
    with asyncio.Runner() as runner:
        AuditedApi.policy = read_policy(tmp_path / "policy")
        api = AuditedApi(runner, ManualClock())
        bob = api.knows("bob")
        for decision in (ALLOWED, NO_OPINION, AuthorizationDecision(False, error="broken")):
            api.distant.decisions = {"list pods": decision}
            api.get(PODS, token=bob)
        shown = [json.loads(line)["annotations"] for line in api.lines]
    prefix = "authorization.k8s.io"
    assert shown == [
        {f"{prefix}/decision": "allow", f"{prefix}/reason": "because"},
        {f"{prefix}/decision": "forbid", f"{prefix}/reason": ""},
        {f"{prefix}/reason": "internal error"},
    ]
    assert api.distant.asked == ["list pods"] * 3
