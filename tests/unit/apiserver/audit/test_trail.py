"""What is written about requests: everybody's, also of those who were turned away."""

from __future__ import annotations

import json

import msgspec
import pytest

from kubeloop.apiserver.audit import Auditor
from kubeloop.apiserver.audit.policy import AuditPolicy
from tests.unit.apiserver.conftest import POD_SPEC, StillClock
from tests.unit.apiserver.secured import secured_api

MAPS = "/api/v1/namespaces/shop/configmaps"


class Lines:
    """A log that remembers."""

    def __init__(self):
        self.events = []

    def write(self, line):
        assert line.endswith(b"\n")
        self.events.append(json.loads(line))

    def take(self):
        taken, self.events = self.events, []
        return taken


def policy_of(*rules, **fields):
    document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules, **fields}
    return msgspec.convert(document, AuditPolicy)


@pytest.fixture
def audited():
    """A server with a policy, and its log."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def make(*rules, **fields):
            log = Lines()
            api = stack.enter_context(secured_api(Auditor(policy_of(*rules, **fields), log, StillClock())))
            api.namespace("shop")
            log.take()
            return api, log

        yield make


def test_each_stage_of_a_request_is_written(audited):
    api, log = audited({"level": "Metadata"})
    answer = api.post(f"{MAPS}?fieldManager=t", {"metadata": {"name": "m"}, "data": {"k": "v"}}, user_agent="test/1")
    received, complete = log.take()
    assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
    assert "responseStatus" not in received
    assert complete == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": answer.headers["Audit-Id"],
        "stage": "ResponseComplete",
        "requestURI": f"{MAPS}?fieldManager=t",
        "verb": "create",
        "user": {
            "username": "admin",
            "uid": "7",
            "groups": ["system:masters", "system:authenticated"],
            "extra": {"team": ["a", "b"]},
        },
        "sourceIPs": [],
        "userAgent": "test/1",
        "objectRef": {"resource": "configmaps", "namespace": "shop", "name": "m", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "requestReceivedTimestamp": "2026-05-10T12:00:00.000000Z",
        "stageTimestamp": "2026-05-10T12:00:00.000000Z",
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    }


def test_bodies_are_written_where_the_policy_says_so(audited):
    api, log = audited({"level": "Request", "verbs": ["create"]}, {"level": "RequestResponse", "verbs": ["get"]})
    body = {"metadata": {"name": "m"}, "data": {"k": "v"}}
    api.post(MAPS, body)
    created = log.take()[-1]
    assert created["requestObject"] == body
    assert "responseObject" not in created
    api.get(f"{MAPS}/m")
    assert log.take()[-1]["responseObject"]["data"] == {"k": "v"}
    api.get(MAPS)
    assert log.take() == []


def test_managed_fields_can_be_left_out(audited):
    api, log = audited({"level": "RequestResponse"}, omitManagedFields=True)
    api.post(MAPS, {"metadata": {"name": "m"}, "data": {"k": "v"}})
    assert "managedFields" not in log.take()[-1]["responseObject"]["metadata"]


def test_stages_can_be_left_out(audited):
    api, log = audited({"level": "Metadata"}, omitStages=["RequestReceived"])
    api.get(MAPS)
    assert [event["stage"] for event in log.take()] == ["ResponseComplete"]


def test_a_secret_is_in_no_event(audited):
    api, log = audited({"level": "RequestResponse"})
    path = "/api/v1/namespaces/shop/secrets"
    api.post(path, {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}})
    api.get(f"{path}/s")
    api.get(path)
    api.ask("PATCH", f"{path}/s", {"stringData": {"password": "hunter2"}}, content_type="application/merge-patch+json")
    token = api.post("/api/v1/namespaces/shop/serviceaccounts/default/token", {"spec": {}}).body["status"]["token"]
    api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    api.get(MAPS, token=token)
    text = json.dumps(log.take())
    for secret in ("hunter2", "aHVudGVyMg", token):
        assert secret not in text


def test_who_is_impersonated_is_written_beside_who_does_it(audited):
    api, log = audited({"level": "Metadata"})
    api.get(MAPS, impersonate_user="bob", impersonate_group="devs")
    event = log.take()[-1]
    assert event["user"]["username"] == "admin"
    assert event["impersonatedUser"] == {"username": "bob", "groups": ["devs", "system:authenticated"]}
    assert event["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"


def _knows(api):
    api.knows("eve")
    api.knows("system:node:n1", "system:nodes")
    api.made("/api/v1/namespaces/shop/secrets", {"metadata": {"name": "s"}})
    api.made("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "strong"}, "rules": []})
    api.may("create: rolebindings @rbac.authorization.k8s.io", user="eve", namespace="shop")
    api.may("*: pods", user="strong")


ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "missing"}
ATTEMPTS = {
    "reading without the right": ("GET", MAPS, None, {"token": "eve"}, 403),
    "binding a role": (
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings",
        {"metadata": {"name": "b"}, "roleRef": ROLE},
        {"token": "eve"},
        404,
    ),
    "a token for another account": (
        "POST",
        "/api/v1/namespaces/shop/serviceaccounts/default/token",
        {"spec": {}},
        {"token": "eve"},
        403,
    ),
    "another node's secret": ("GET", "/api/v1/namespaces/shop/secrets/s", None, {"token": "system:node:n1"}, 403),
    "being somebody else": ("GET", MAPS, None, {"token": "eve", "impersonate_user": "admin"}, 403),
    "a forged token": ("GET", MAPS, None, {"token": "a.b.c"}, 401),
    "no token of ours": ("GET", MAPS, None, {"token": "nonsense"}, 401),
    "a path": ("GET", "/metrics", None, {"token": "eve"}, 403),
    "what is not there": ("GET", "/apis/example.com/v1/things", None, {"token": "eve"}, 403),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_who_is_turned_away_is_written_down(audited, attempt):
    method, path, body, headers, code = ATTEMPTS[attempt]
    api, log = audited({"level": "Metadata"})
    _knows(api)
    log.take()
    answer = api.ask(method, path, body, **headers)
    assert answer.status == code
    event = log.take()[-1]
    assert event["responseStatus"]["code"] == code
    assert event["requestURI"] == path
    assert event["auditID"] == answer.headers["Audit-Id"]
    if code == 401:
        assert event["user"] == {}
        assert event["responseStatus"]["message"] == "Authentication failed, attempted: bearer"
    else:
        assert event["user"]["username"] == headers["token"]
        assert event["responseStatus"]["reason"] == answer.body["reason"]


def test_a_failure_of_ours_is_written_as_a_panic(audited, monkeypatch):
    api, log = audited({"level": "Metadata"})

    async def broken(ctx, verb):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(api.server, "serve", broken)
    with pytest.raises(RuntimeError):
        api.get(MAPS)
    event = log.take()[-1]
    assert event["stage"] == "Panic"
    assert event["responseStatus"]["message"] == "APIServer panic'd: RuntimeError"


def test_a_client_may_name_the_request(audited):
    api, log = audited({"level": "Metadata"})
    assert api.get(MAPS, audit_id="mine").headers["Audit-Id"] == "mine"
    assert log.take()[-1]["auditID"] == "mine"
    assert len(api.get(MAPS, audit_id="x" * 100).headers["Audit-Id"]) == 64


def test_every_answer_has_an_id_of_its_own(audited):
    api, log = audited({"level": "None"})
    found = {api.get(path).headers["Audit-Id"] for path in (MAPS, "/version", "/nosuch", f"{MAPS}/missing", MAPS)}
    assert len(found) == 5
    assert log.take() == []


def test_a_pod_in_yaml_is_written_as_json(audited):
    api, log = audited({"level": "Request"})
    body = msgspec.yaml.encode({"metadata": {"name": "p"}, "spec": POD_SPEC})
    api.post("/api/v1/namespaces/shop/pods", body, content_type="application/yaml")
    event = log.take()[-1]
    assert (event["objectRef"]["name"], event["requestObject"]["spec"]) == ("p", POD_SPEC)


def test_what_policies_have_to_say_is_written_with_the_request(audited):
    api, log = audited({"level": "Metadata"})
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "true"}, {"expression": "object.metadata.name != 'odd'", "message": "odd"}],
        "auditAnnotations": [
            {"key": "name", "valueExpression": "'called ' + object.metadata.name"},
            {"key": "nothing", "valueExpression": "null"},
        ],
    }
    api.post(f"{group}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    binding = {"policyName": "p", "validationActions": ["Audit"]}
    api.post(f"{group}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": binding})
    log.take()
    assert api.post(MAPS, {"metadata": {"name": "odd"}}).status == 201
    annotations = log.take()[-1]["annotations"]
    assert annotations["p/name"] == "called odd"
    assert "p/nothing" not in annotations
    assert json.loads(annotations["validation.policy.admission.k8s.io/validation_failure"]) == [
        {"message": "odd", "policy": "p", "binding": "b", "expressionIndex": 1, "validationActions": ["Audit"]}
    ]
