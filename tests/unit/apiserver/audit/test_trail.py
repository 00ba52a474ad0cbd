# SPDX-License-Identifier: Apache-2.0
"""Tests of audit events of all requests, including rejected ones."""

from __future__ import annotations

import asyncio
import base64
import json

import msgspec
import pytest

from kubeloop.apiserver.audit import Auditor
from kubeloop.apiserver.audit.backends import LogBackend
from kubeloop.apiserver.audit.latency import LayerLatency
from kubeloop.apiserver.audit.policy import AuditPolicy
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.background.offload import WorkerThread
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.trace import RequestTrace
from kubeloop.clock import SystemClock
from kubeloop.http import HttpLimits, Request, TruncatedRequest, UpgradeResponse, serve
from kubeloop.metrics import MetricRegistry
from tests.unit.apiserver.conftest import ADMIN, POD_SPEC, ManualClock
from tests.unit.apiserver.secured_api import secured_api

MAPS = "/api/v1/namespaces/shop/configmaps"


class MemoryLog:
    """Audit log in memory."""

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
            log = MemoryLog()
            api = stack.enter_context(
                secured_api(Auditor(policy_of(*rules, **fields), LogBackend(log), ManualClock(), MetricRegistry()))
            )
            api.namespace("shop")
            log.take()
            return api, log

        yield make


def test_each_stage_of_a_request_is_logged(audited):
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


def test_bodies_are_logged_by_policy(audited):
    api, log = audited({"level": "Request", "verbs": ["create"]}, {"level": "RequestResponse", "verbs": ["get"]})
    body = {"metadata": {"name": "m"}, "data": {"k": "v"}}
    api.post(MAPS, body)
    created = log.take()[-1]
    assert created["requestObject"] == {"kind": "ConfigMap", "apiVersion": "v1", **body}
    assert "responseObject" not in created
    api.get(f"{MAPS}/m")
    assert log.take()[-1]["responseObject"]["data"] == {"k": "v"}
    api.get(MAPS)
    assert log.take() == []


def test_the_decoded_and_defaulted_object_is_logged(audited):
    api, log = audited({"level": "Request"})
    api.post(
        "/api/v1/namespaces/shop/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}, "no": 1}
    )
    logged = log.take()[-1]["requestObject"]
    assert (logged["kind"], logged["spec"]["ports"]) == ("Service", [{"port": 80, "protocol": "TCP", "targetPort": 80}])
    assert "no" not in logged


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        (MAPS, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "m"}}, {}),
        (f"{MAPS}?fieldValidation=Strict", {"metadata": {"name": "m"}, "no": 1}, {}),
        (MAPS, {"metadata": {"name": "m"}}, {"token": "nobody"}),
        ("/apis/none.example.com/v1/things", {"metadata": {"name": "m"}}, {}),
    ],
    ids=["wrong kind", "unknown field", "unauthenticated", "unknown group"],
)
def test_a_body_that_no_handler_decodes_is_not_logged(audited, path, body, headers):
    api, log = audited({"level": "Request"})
    api.post(path, body, **headers)
    for event in log.take():
        assert "requestObject" not in event
        assert "name" not in event.get("objectRef", {})


def test_a_patch_is_logged_as_it_was_sent(audited):
    api, log = audited({"level": "Request"})
    api.post(MAPS, {"metadata": {"name": "m"}})
    api.patch("merge", f"{MAPS}/m", {"data": {"k": "v"}})
    assert log.take()[-1]["requestObject"] == {"data": {"k": "v"}}
    api.ask("PATCH", f"{MAPS}/m", {"data": {}}, content_type="application/json")
    assert "requestObject" not in log.take()[-1]


def test_an_update_is_logged_with_its_resource_version(audited):
    api, log = audited({"level": "Metadata"})
    meta = {"name": "m", "resourceVersion": "1"}
    api.ask("PUT", f"{MAPS}/m", {"metadata": meta})
    assert log.take()[-1]["objectRef"]["resourceVersion"] == "1"


def test_delete_options_and_their_status_are_logged(audited):
    api, log = audited({"level": "Request"})
    api.post(MAPS, {"metadata": {"name": "m"}})
    api.ask("DELETE", f"{MAPS}/m", {"propagationPolicy": "Background"})
    event = log.take()[-1]
    assert event["requestObject"] == {
        "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal", "propagationPolicy": "Background"
    }  # fmt: skip
    status = event["responseStatus"]
    assert (status["status"], status["code"], status["details"]["name"]) == ("Success", 200, "m")


def test_a_response_in_protobuf_is_logged_as_json(audited):
    api, log = audited({"level": "RequestResponse"})
    api.post(MAPS, {"metadata": {"name": "m"}, "data": {"k": "v"}})
    api.get(f"{MAPS}/m", accept="application/vnd.kubernetes.protobuf")
    logged = log.take()[-1]["responseObject"]
    assert (logged["kind"], logged["metadata"]["name"], logged["data"]) == ("ConfigMap", "m", {"k": "v"})


@pytest.mark.parametrize("path", [f"{MAPS}?watch=1&resourceVersion=x", "/api/v1/namespaces/shop/services/none/proxy"])
def test_a_failed_long_running_request_has_two_stages(audited, path):
    api, log = audited({"level": "Metadata"}, omitStages=["RequestReceived"])
    assert api.get(path).status >= 400
    assert [event["stage"] for event in log.take()] == ["ResponseStarted", "ResponseComplete"]


def test_a_response_without_acceptable_format_is_logged_by_its_code(audited):
    api, log = audited({"level": "RequestResponse"})
    assert api.get(MAPS, accept="text/html").status == 406
    event = log.take()[-1]
    assert event["responseStatus"] == {"metadata": {}, "code": 406}
    assert "responseObject" not in event


def test_an_issued_token_is_named_by_its_identity(audited):
    api, log = audited({"level": "Metadata"})
    token = api.post("/api/v1/namespaces/shop/serviceaccounts/default/token", {"spec": {}}).body["status"]["token"]
    event = log.take()[-1]
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert event["annotations"]["authentication.kubernetes.io/issued-credential-id"] == f"JTI={claims['jti']}"


def test_managed_fields_can_be_omitted(audited):
    api, log = audited({"level": "RequestResponse"}, omitManagedFields=True)
    api.post(MAPS, {"metadata": {"name": "m"}, "data": {"k": "v"}})
    assert "managedFields" not in log.take()[-1]["responseObject"]["metadata"]


def test_stages_can_be_omitted(audited):
    api, log = audited({"level": "Metadata"}, omitStages=["RequestReceived"])
    api.get(MAPS)
    assert [event["stage"] for event in log.take()] == ["ResponseComplete"]


def test_secret_appears_in_no_event(audited):
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


def test_impersonated_user_and_user_are_logged(audited):
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
def test_rejected_requests_are_logged(audited, attempt):
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


def test_internal_failure_is_logged_as_panic(audited, monkeypatch):
    api, log = audited({"level": "Metadata"})

    async def broken(ctx, verb):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(api.server, "serve", broken)
    with pytest.raises(RuntimeError):
        api.get(MAPS)
    event = log.take()[-1]
    assert event["stage"] == "Panic"
    assert event["responseStatus"]["message"] == "APIServer panic'd: RuntimeError"


def test_client_may_set_the_audit_id(audited):
    api, log = audited({"level": "Metadata"})
    assert api.get(MAPS, audit_id="mine").headers["Audit-Id"] == "mine"
    assert log.take()[-1]["auditID"] == "mine"
    assert len(api.get(MAPS, audit_id="x" * 100).headers["Audit-Id"]) == 64


def test_every_response_has_an_audit_id(audited):
    api, log = audited({"level": "None"})
    found = {api.get(path).headers["Audit-Id"] for path in (MAPS, "/version", "/nosuch", f"{MAPS}/missing", MAPS)}
    assert len(found) == 5
    assert log.take() == []


def test_yaml_pod_is_logged_as_json(audited):
    api, log = audited({"level": "Request"})
    body = msgspec.yaml.encode({"metadata": {"name": "p"}, "spec": POD_SPEC})
    api.post("/api/v1/namespaces/shop/pods", body, content_type="application/yaml")
    event = log.take()[-1]
    logged = event["requestObject"]["spec"]["containers"][0]
    assert (event["objectRef"]["name"], logged["image"]) == ("p", POD_SPEC["containers"][0]["image"])


def test_policy_audit_annotations_are_logged(audited):
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


def test_requests_to_a_deprecated_version_are_annotated(audited):
    api, log = audited({"level": "Metadata"})
    api.get("/api/v1/namespaces/shop/endpoints")
    (_, complete) = log.take()
    assert complete["annotations"]["k8s.io/deprecated"] == "true"
    assert "k8s.io/removed-release" not in complete["annotations"]
    api.get(MAPS)
    (_, complete) = log.take()
    assert "k8s.io/deprecated" not in complete["annotations"]


def test_the_release_that_removes_a_deprecated_version_is_annotated():
    from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES

    old = next(one for one in OPTIONAL_RESOURCES if one.group_version == "resource.k8s.io/v1beta1")
    trail = Auditor(policy_of({"level": "Metadata"}), MemoryLog(), ManualClock(), MetricRegistry()).trail(
        Request("GET", "/", ""), "id"
    )
    trail.annotate_deprecation(old)
    release = old.deprecation.rpartition("unavailable in v")[2].partition("+")[0]
    assert trail.annotations == {"k8s.io/deprecated": "true", "k8s.io/removed-release": release}


def test_pod_security_is_annotated(audited):
    api, log = audited({"level": "Metadata"})
    api.post("/api/v1/namespaces/shop/pods", {"metadata": {"name": "p"}, "spec": POD_SPEC})
    complete = log.take()[-1]
    assert complete["annotations"]["pod-security.kubernetes.io/enforce-policy"] == "privileged:latest"


def test_events_that_are_sent_to_the_backend_are_counted():
    metrics, log = MetricRegistry(), MemoryLog()
    Auditor(policy_of({"level": "Metadata"}), LogBackend(log), ManualClock(), metrics).log_rejected_certificate(
        "expired"
    )
    assert len(log.take()) == 1
    assert "apiserver_audit_event_total 1" in metrics.render().splitlines()


def test_an_upgraded_connection_is_complete_when_it_ends():
    """Over a socket, as the end of a connection is seen there alone."""

    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(data)

    def take_over(transport, early):
        echo = Echo()
        echo.transport = transport
        transport.set_protocol(echo)

    ended = asyncio.Event()

    class StoppingLog(MemoryLog):
        def write(self, line):
            super().write(line)
            if self.events[-1]["stage"] == "ResponseComplete":
                ended.set()

    log = StoppingLog()
    auditor = Auditor(policy_of({"level": "Metadata"}), LogBackend(log), ManualClock(), MetricRegistry())
    trail = auditor.trail(Request("GET", "/x"), "7")

    async def handler(request):
        await trail.begin(ADMIN, AuthorizationAttributes(ADMIN, "get", path="/x"), WorkerThread())
        response = UpgradeResponse(take_over, (("Upgrade", "echo"), ("Connection", "Upgrade")))
        await trail.add_bodies(response, WorkerThread())
        return trail.finish(response, lambda: AuthorizationAttributes(ADMIN, "get", path="/x"))

    def stages():
        return [event["stage"] for event in log.events]

    async def check():
        server = await serve(handler, "127.0.0.1", 0, None, HttpLimits(), SystemClock())
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            assert b"101" in await reader.readuntil(b"\r\n\r\n")
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            assert stages() == ["RequestReceived", "ResponseStarted"]
            writer.close()
            await ended.wait()
            assert stages() == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
        finally:
            await server.close()

    asyncio.run(check())


def test_a_body_that_is_too_large_is_rejected_after_authorization_and_audited(audited):
    api, log = audited({"level": "Metadata"})
    status, _, headers = api.send(
        TruncatedRequest(Request("POST", MAPS, headers={"authorization": "Bearer admin"}), 10)
    )
    complete = log.take()[-1]
    assert (status, complete["stage"], complete["user"]["username"]) == (413, "ResponseComplete", "admin")
    assert complete["auditID"] == headers["Audit-Id"]
    assert complete["objectRef"] == {"resource": "configmaps", "namespace": "shop", "apiVersion": "v1"}
    assert complete["responseStatus"]["code"] == 413
    assert complete["responseStatus"]["message"] == "Request entity too large: limit is 10"
    assert count_of(api, "apiserver_request_total", code="413", verb="POST", resource="configmaps") == 1
    stranger = TruncatedRequest(Request("POST", MAPS, headers={"authorization": f"Bearer {api.knows('eve')}"}), 10)
    assert api.send(stranger)[0] == 403


def test_the_large_body_of_a_read_is_ignored(audited):
    api, _ = audited({"level": "None"})
    assert api.send(TruncatedRequest(Request("GET", MAPS, headers={"authorization": "Bearer admin"}), 10))[0] == 200


def test_a_path_that_is_too_long_is_audited_and_counted(audited):
    api, log = audited({"level": "Metadata"})
    path = f"{MAPS}/" + "%41" * 30_000
    assert api.get(path).status == 414
    complete = log.take()[-1]
    assert (complete["user"]["username"], complete["requestURI"], complete["responseStatus"]["code"]) == (
        "admin",
        path,
        414,
    )
    assert count_of(api, "apiserver_request_terminations_total", code="414", verb="GET") == 1


def test_requests_that_the_http_layer_rejects_are_counted(audited):
    api, _ = audited({"level": "None"})
    assert api.server.rejection_response(431, "Request Header Fields Too Large").status == 431
    assert count_of(api, "apiserver_request_terminations_total", code="431", verb="other") == 1


def count_of(api, name, **labels):
    """Return the value of the counter with these labels."""
    lines = api.get("/metrics").body.decode().splitlines()
    shown = [f'{label}="{value}"' for label, value in labels.items()]
    found = [one for one in lines if one.startswith(f"{name}{{") and all(part in one for part in shown)]
    assert len(found) == 1, found
    return float(found[0].rsplit(" ", 1)[1])


@pytest.fixture
def slow():
    """A server whose decisions take some seconds, and its audit log."""
    clock, log = ManualClock(), MemoryLog()
    with secured_api(Auditor(policy_of({"level": "Metadata"}), LogBackend(log), clock, MetricRegistry())) as api:
        api.namespace("shop")
        log.take()
        api.server.clock = clock
        decide = api.server.authorizer.decide

        def decide_within(seconds):
            def decide_slowly(asked):
                clock.advance(seconds)
                return decide(asked)

            api.server.authorizer.decide = decide_slowly

        yield api, log, decide_within


def test_the_event_of_a_slow_request_has_the_latency_of_its_layers(slow):
    api, log, decide_within = slow
    decide_within(0.75)
    api.get(f"{MAPS}")
    received, complete = log.take()
    assert "annotations" not in received
    latency = {key: value for key, value in complete["annotations"].items() if "latency" in key}
    assert latency == {
        "apiserver.latency.k8s.io/authorization": "750ms",
        "apiserver.latency.k8s.io/total": "750ms",
    }


@pytest.mark.parametrize(("seconds", "path"), [(0.5, MAPS), (0.75, f"{MAPS}?watch=1&timeoutSeconds=1")])
def test_the_event_of_a_fast_request_and_of_a_watch_has_no_latency(slow, seconds, path):
    api, log, decide_within = slow
    decide_within(seconds)
    api.get(path)
    assert not [key for event in log.take() for key in event.get("annotations", ()) if "latency" in key]


def test_the_latency_of_webhooks_queue_and_storage_is_annotated():
    latency = LayerLatency()
    latency.storage = 0.25
    trace = latency.trace = RequestTrace("POST", Query(""), None, 0.0)
    trace.authentication_seconds = 1.5e-6
    request = Request("POST", MAPS)
    trace.ctx = RequestContext(request, None, Query(""), ADMIN, None, ManualClock().now)
    trace.ctx.exclude_queue_wait(61)
    webhooks = trace.ctx.ensure_latency()
    for seconds in (1, 2):
        webhooks.observe_webhook(seconds, mutating=True)
        webhooks.observe_webhook(seconds, mutating=False)
    shown = {key.removeprefix("apiserver.latency.k8s.io/"): text for key, text in latency.annotations(70).items()}
    assert shown == {
        "etcd": "250ms",
        "authentication": "1.5µs",
        "mutating-webhook": "3s",
        "validating-webhook": "2s",
        "apf-queue-wait": "1m1s",
        "total": "1m10s",
    }
    assert webhooks.excluded == 66
