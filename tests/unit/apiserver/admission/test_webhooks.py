# SPDX-License-Identifier: Apache-2.0
"""Tests of webhooks over TLS: matching, mutation, and failures."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.apiserver.admission.hook_server import Behaviour, HookServer, make_pki, patch
from tests.unit.apiserver.conftest import Answer, Api, ManualClock

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/shop/configmaps"
EVERY_MAP = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


MAY_CREATE = "oldObject == null && authorizer.requestResource.check('create').allowed()"


class WebhookApi(Api):
    """Server with configurable webhooks."""

    def __init__(self, runner: asyncio.Runner, hooks: HookServer) -> None:
        super().__init__(runner, ManualClock())
        self.hooks = hooks
        self.runner = runner
        self.made("/api/v1/namespaces", {"metadata": {"name": "shop", "labels": {"tier": "front"}}})

    def hook(self, behaviour: Behaviour, kind: str = "validating", name: str = "a.example.com", **spec: Any) -> None:
        """Configure one webhook, in a separate configuration with the same name."""
        path = f"/{kind}/{name}"
        self.hooks.behaviours[path] = behaviour
        hook = {
            "name": name,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": self.hooks.client(path),
            "rules": [EVERY_MAP],
            **spec,
        }
        self.made(f"{CONFIGURATIONS}/{kind}webhookconfigurations", {"metadata": {"name": name}, "webhooks": [hook]})

    def rewrite(self, resource: tuple[str, str, str], namespace: str, name: str, old: bytes, new: bytes) -> None:
        """Change what is stored behind the server's back."""
        storage = self.server.registry.storage_named(*resource)
        record = storage.get(namespace, name)
        assert record is not None

        async def write() -> None:
            await storage.store.write(record.key, record.value.replace(old, new), record.mod_revision)

        self.runner.run(write())

    def make_map(self, name: str = "m", query: str = "", **metadata: Any) -> Answer:
        return self.post(MAPS + query, {"metadata": {"name": name, **metadata}, "data": {"k": "v"}})


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def api(pki) -> Iterator[WebhookApi]:
    hooks = HookServer(pki)
    with asyncio.Runner() as runner:
        runner.run(hooks.start())
        api = WebhookApi(runner, hooks)
        yield api
        runner.run(hooks.stop())


def yes(_request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def no(_request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False, "status": {"message": "not today"}}


# -- the question ---------------------------------------------------------------------------------------------------


def test_review_has_all_request_attributes(api):
    api.hook(yes)
    assert api.make_map(query="?fieldManager=me&dryRun=All").status == 201
    [seen] = api.hooks.seen
    assert api.hooks.reviews[0]["apiVersion"] == "admission.k8s.io/v1"
    assert seen["target"] == "/validating/a.example.com?timeout=10s"
    assert len(seen["uid"]) == 36
    assert seen["kind"] == seen["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert seen["resource"] == seen["requestResource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (seen["name"], seen["namespace"], seen["operation"], seen["dryRun"]) == ("m", "shop", "CREATE", True)
    assert seen["userInfo"] == {
        "username": "admin",
        "uid": "7",
        "groups": ["system:masters", "system:authenticated"],
        "extra": {"team": ["a", "b"]},
    }
    assert seen["object"]["data"] == {"k": "v"}
    assert seen["object"]["metadata"]["uid"]
    assert seen["oldObject"] is None
    options = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"], "fieldManager": "me"}
    assert seen["options"] == options
    assert "subResource" not in seen


def test_update_and_delete_have_the_old_object(api):
    api.make_map()
    api.hook(yes)
    assert api.patch("merge", f"{MAPS}/m", {"data": {"k": "w"}}).status == 200
    assert api.ask("DELETE", f"{MAPS}/m?gracePeriodSeconds=5").status == 200
    update, deletion = api.hooks.seen
    assert (update["object"]["data"], update["oldObject"]["data"]) == ({"k": "w"}, {"k": "v"})
    assert update["options"]["kind"] == "UpdateOptions"
    assert (deletion["object"], deletion["oldObject"]["data"]) == (None, {"k": "w"})
    assert deletion["options"] == {
        "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 5
    }  # fmt: skip


def test_mutating_webhook_sees_no_later_fields(api):
    api.hook(yes, "mutating")
    api.hook(yes, "validating")
    body = {"metadata": {"generateName": "m-"}}
    assert api.post(MAPS, body).status == 201
    changing, refusing = api.hooks.seen
    assert not {"uid", "creationTimestamp", "name"} & changing["object"]["metadata"].keys()
    assert "name" not in changing
    assert refusing["object"]["metadata"]["name"].startswith("m-")
    assert refusing["name"] == refusing["object"]["metadata"]["name"]


def test_v1beta1_reviews_are_sent_if_listed_first(api):
    api.hook(yes, admissionReviewVersions=["v0", "v1beta1", "v1"])
    assert api.make_map().status == 201
    assert api.hooks.reviews[0]["apiVersion"] == "admission.k8s.io/v1beta1"


def test_connections_are_kept_and_replaced_when_closed(api):
    api.hook(yes)
    for name in ("a", "b", "c"):
        assert api.make_map(name).status == 201
    assert api.hooks.connections == 1
    api.hooks.hang_up()
    assert api.make_map("d").status == 201
    assert api.hooks.connections == 2


def test_service_is_resolved_by_its_endpoints(api):
    port = {"name": "https", "port": 443, "protocol": "TCP"}
    api.made("/api/v1/namespaces/shop/services", {"metadata": {"name": "hooks"}, "spec": {"ports": [port]}})
    endpoints = {
        "metadata": {"name": "hooks-1", "labels": {"kubernetes.io/service-name": "hooks"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"]}],
        "ports": [{"name": "https", "port": api.hooks.port}],
    }
    api.made("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", endpoints)
    # No client may make a slice with this machine's own address, which here stands for a pod's.
    api.rewrite(("discovery.k8s.io", "v1", "endpointslices"), "shop", "hooks-1", b"192.0.2.1", b"127.0.0.1")
    service = {"name": "hooks", "namespace": "shop", "path": "/validating/a.example.com"}
    api.hook(yes, clientConfig={"service": service, "caBundle": api.hooks.authority})
    assert api.make_map().status == 201
    assert len(api.hooks.seen) == 1


# -- matching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ({}, True),
        ({"rules": [{**EVERY_MAP, "operations": ["UPDATE"]}]}, False),
        ({"rules": [{**EVERY_MAP, "apiGroups": ["apps"]}]}, False),
        ({"rules": [{**EVERY_MAP, "apiVersions": ["v2"]}], "matchPolicy": "Exact"}, False),
        ({"rules": [{**EVERY_MAP, "resources": ["*/*"]}]}, True),
        ({"rules": [{**EVERY_MAP, "resources": ["configmaps/status"]}]}, False),
        ({"rules": [{**EVERY_MAP, "scope": "Cluster"}]}, False),
        ({"rules": [{**EVERY_MAP, "scope": "Namespaced"}]}, True),
        ({"namespaceSelector": {"matchLabels": {"tier": "front"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"tier": "back"}}}, False),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, True),
        ({"objectSelector": {"matchLabels": {"a": "c"}}}, False),
        ({"matchConditions": [{"name": "x", "expression": "object.metadata.name == 'm'"}]}, True),
        ({"matchConditions": [{"name": "x", "expression": "request.operation == 'DELETE'"}]}, False),
        ({"matchConditions": [{"name": "x", "expression": MAY_CREATE}]}, True),
    ],
)  # fmt: skip
def test_rules_selectors_and_conditions_select_webhooks(api, spec, asked):
    api.hook(yes, **spec)
    assert api.make_map(labels={"a": "b"}).status == 201
    assert bool(api.hooks.seen) == asked


def test_failing_match_condition_rejects_unless_ignored(api):
    condition = [{"name": "x", "expression": "object.nosuch.field"}]
    failing = [{"name": "x", "expression": "object.nosuch.field == 1"}]
    assert api.post(f"{CONFIGURATIONS}/validatingwebhookconfigurations", {
        "metadata": {"name": "bad"},
        "webhooks": [{
            "name": "b.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://x.example.com"}, "matchConditions": condition,
        }],
    }).status == 422  # fmt: skip
    api.hook(no, matchConditions=failing)
    answer = api.make_map()
    assert answer.status == 403
    assert answer.body["message"] == (
        "configmaps \"m\" is forbidden: expression 'object.nosuch.field == 1' resulted in error: no such key: nosuch"
    )
    api.ask("DELETE", f"{CONFIGURATIONS}/validatingwebhookconfigurations/a.example.com")
    api.hook(no, matchConditions=failing, failurePolicy="Ignore")
    assert api.make_map().status == 201
    assert not api.hooks.seen


def test_equivalent_version_is_converted_to_the_rules_version(api):
    events = {"operations": ["CREATE"], "apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "resources": ["events"]}
    api.hook(yes, rules=[events])
    event = {
        "metadata": {"name": "e", "namespace": "shop"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "shop"},
        "message": "said",
    }
    assert api.post("/api/v1/namespaces/shop/events", event).status == 201
    [seen] = api.hooks.seen
    assert seen["kind"] == {"group": "events.k8s.io", "version": "v1", "kind": "Event"}
    assert seen["requestKind"] == {"group": "", "version": "v1", "kind": "Event"}
    assert seen["object"]["apiVersion"] == "events.k8s.io/v1"
    assert seen["object"]["note"] == "said"


def test_webhook_configurations_and_access_reviews_are_not_intercepted(api):
    every = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    api.hook(no, rules=[every])
    path = f"{CONFIGURATIONS}/validatingwebhookconfigurations/a.example.com"
    assert api.patch("merge", path, {"metadata": {"labels": {"a": "b"}}}).status == 200
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    assert api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).status == 201
    assert api.make_map().status == 400
    assert api.ask("DELETE", path).status == 200
    assert api.make_map().status == 201


def test_scale_is_reviewed_and_mutated_as_a_scale(api):
    scales = {
        "operations": ["UPDATE"],
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["deployments/scale"],
    }
    at_most_three = patch({"op": "replace", "path": "/spec/replicas", "value": 3})
    api.hook(lambda _: at_most_three, "mutating", rules=[scales])
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = "/apis/apps/v1/namespaces/shop/deployments"
    api.made(path, {"metadata": {"name": "d"}, "spec": spec})
    answer = api.patch("merge", f"{path}/d/scale", {"spec": {"replicas": 9}})
    assert answer.body["spec"]["replicas"] == 3
    [seen] = api.hooks.seen
    assert seen["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert seen["subResource"] == "scale"
    assert (seen["object"]["spec"], seen["oldObject"]["spec"]) == ({"replicas": 9}, {"replicas": 1})


# -- what they may change -------------------------------------------------------------------------------------------


def test_patches_are_applied_in_order(api):
    api.hook(lambda _: patch({"op": "add", "path": "/data/a", "value": "1"}), "mutating", "a.example.com")
    api.hook(lambda r: patch({"op": "add", "path": "/data/b", "value": r["object"]["data"]["a"] + "2"}),
             "mutating", "b.example.com")  # fmt: skip
    answer = api.make_map()
    assert answer.body["data"] == {"k": "v", "a": "1", "b": "12"}
    assert api.get(f"{MAPS}/m").body["data"] == {"k": "v", "a": "1", "b": "12"}


def test_patched_object_is_defaulted_and_validated(api):
    pods = [{**EVERY_MAP, "resources": ["pods"]}]
    spec = {"containers": [{"name": "c", "image": "i"}]}
    added = {"op": "add", "path": "/spec/containers/-", "value": {"name": "d", "image": "j"}}
    api.hook(lambda _: patch(added), "mutating", rules=pods)
    made = api.made("/api/v1/namespaces/shop/pods", {"metadata": {"name": "p"}, "spec": spec})
    assert made["spec"]["containers"][1]["terminationMessagePath"] == "/dev/termination-log"
    added["value"] = {"name": "Not A Name", "image": "j"}
    answer = api.post("/api/v1/namespaces/shop/pods", {"metadata": {"name": "q"}, "spec": spec})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert "spec.containers[1].name" in answer.body["message"]


def test_webhook_may_set_the_generated_name(api):
    api.hook(lambda _: patch({"op": "add", "path": "/metadata/name", "value": "mine"}), "mutating")
    assert api.post(MAPS, {"metadata": {"generateName": "m-"}}).body["metadata"]["name"] == "mine"


def test_webhook_is_reinvoked_after_a_later_change(api):
    def count(request: dict[str, Any]) -> dict[str, Any]:
        data = request["object"]["data"]
        return patch({"op": "add", "path": "/data/seen", "value": " ".join(sorted(data))})

    api.hook(count, "mutating", "a.example.com", reinvocationPolicy="IfNeeded")
    api.hook(lambda _: patch({"op": "add", "path": "/data/late", "value": "1"}), "mutating", "b.example.com")
    assert api.make_map().body["data"] == {"k": "v", "late": "1", "seen": "k late seen"}
    assert [seen["target"].split("?")[0] for seen in api.hooks.seen] == [
        "/mutating/a.example.com",
        "/mutating/b.example.com",
        "/mutating/a.example.com",
    ]


def test_webhook_is_not_reinvoked_by_default(api):
    api.hook(yes, "mutating", "a.example.com")
    api.hook(lambda _: patch({"op": "add", "path": "/data/late", "value": "1"}), "mutating", "b.example.com")
    assert api.make_map().status == 201
    assert len(api.hooks.seen) == 2


def test_patch_of_a_deletion_is_ignored(api):
    api.make_map()
    api.hook(lambda _: patch({"op": "add", "path": "/data/a", "value": "1"}), "mutating")
    answer = api.ask("DELETE", f"{MAPS}/m")
    assert answer.status == 500
    assert answer.body["message"] == (
        'Internal error occurred: admission webhook "a.example.com" attempted to modify the object, '
        "which is not supported for this operation"
    )


def test_put_without_a_version_is_retried_on_conflict(api):
    api.make_map()
    meanwhile = [True]

    async def interfere(_request: dict[str, Any]) -> dict[str, Any]:
        if meanwhile:
            meanwhile.clear()
            labels = {"metadata": {"labels": {"a": "b"}}}
            answer = await api._answer("PATCH", f"{MAPS}/m", labels, {"content_type": "application/merge-patch+json"})
            assert answer.status == 200
        return {"allowed": True}

    api.hook(interfere)
    answer = api.put(f"{MAPS}/m", {"metadata": {"name": "m"}, "data": {"k": "new"}})
    assert (answer.status, answer.body["data"]) == (200, {"k": "new"})


# -- what they may refuse -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        (None, 400, None, "without explanation"),
        ({"message": "no"}, 400, None, ": no"),
        ({"reason": "Forbidden", "code": 403}, 403, "Forbidden", ": Forbidden"),
        ({"message": "no", "reason": "Invalid", "code": 422}, 422, "Invalid", ": no"),
        ({"message": "no", "reason": "Mine", "code": 200, "status": "Success"}, 400, "Mine", ": no"),
        ({"message": "no", "code": 599}, 599, None, ": no"),
    ],
)
@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_rejection_has_the_webhooks_message(api, kind, status, code, reason, message):
    api.hook(lambda _: {"allowed": False, "status": status}, kind)
    answer = api.make_map()
    separator = " " if message == "without explanation" else ""
    assert answer.status == answer.body["code"] == code
    assert answer.body.get("reason") == reason
    assert answer.body["message"] == f'admission webhook "a.example.com" denied the request{separator}{message}'
    assert api.get(f"{MAPS}/m").status == 404


def test_warnings_are_returned_regardless_of_the_result(api):
    api.hook(lambda _: {"allowed": True, "warnings": ["old ways"]}, name="a.example.com")
    api.hook(lambda _: {"allowed": False, "warnings": ["bad ways"]}, name="b.example.com")
    answer = api.make_map()
    assert answer.status == 400
    told = " ".join(value for key, value in answer.headers.items() if key == "Warning")
    assert "ways" in told


def test_validating_webhooks_run_concurrently_and_the_first_rejection_is_reported(api):
    both = asyncio.Barrier(2)

    async def late(_request: dict[str, Any]) -> dict[str, Any]:
        await both.wait()
        await asyncio.sleep(0.01)
        return {"allowed": False, "status": {"message": "late"}}

    async def early(_request: dict[str, Any]) -> dict[str, Any]:
        await both.wait()
        return {"allowed": False, "status": {"message": "early"}}

    api.hook(late, name="a.example.com")
    api.hook(early, name="b.example.com")
    assert api.make_map().body["message"] == 'admission webhook "a.example.com" denied the request: late'


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_dry_run_rejects_webhooks_with_side_effects(api, kind):
    api.hook(yes, kind, sideEffects="NoneOnDryRun")
    assert api.make_map(query="?dryRun=All").status == 201
    resource = ("admissionregistration.k8s.io", "v1", f"{kind}webhookconfigurations")
    api.rewrite(resource, "", "a.example.com", b"NoneOnDryRun", b"Some")  # as older servers allowed it
    answer = api.make_map("n", query="?dryRun=All")
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"] == 'admission webhook "a.example.com" does not support dry run'
    assert api.make_map("n").status == 201


# -- what goes wrong ------------------------------------------------------------------------------------------------


def _whole(text: str) -> tuple[int, bytes]:
    return 200, text.encode()


def _reviewed(uid: str = "UID", **parts: Any) -> Behaviour:
    def behave(request: dict[str, Any]) -> tuple[int, bytes]:
        response = {"uid": request["uid"] if uid == "UID" else uid, "allowed": True, **parts.pop("response", {})}
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response, **parts}
        return 200, json.dumps({key: value for key, value in review.items() if value is not None}).encode()

    return behave


NO_CALL = "failed to call webhook"
NO_ANSWER = "received invalid webhook response"
JSON_PATCH = base64.b64encode(b"[]").decode()


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (
            lambda _: (500, b"boom"),
            f'{NO_CALL}: an error on the server ("boom") has prevented the request from succeeding',
        ),
        (lambda _: (404, b""), f"{NO_CALL}: the server could not find the requested resource"),
        (
            lambda _: (200, b""),
            f"{NO_CALL}: 0-length response with status code: 200 and content type: application/json",
        ),
        (
            lambda _: _whole("hello"),
            f"{NO_CALL}: couldn't get version/kind; json parse error: "
            "invalid character 'h' looking for beginning of value",
        ),
        (lambda _: _whole("{}"), f"{NO_ANSWER}: webhook response was absent"),
        (_reviewed(uid="other"), f'{NO_ANSWER}: expected response.uid="UID", got "other"'),
        (
            _reviewed(kind="", apiVersion=""),
            f"{NO_ANSWER}: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
        ),
        (
            _reviewed(response={"patch": JSON_PATCH}),
            f"{NO_ANSWER}: webhook returned response.patch but not response.patchType",
        ),
        (
            _reviewed(response={"patchType": "JSONPatch"}),
            f"{NO_ANSWER}: webhook returned response.patchType but not response.patch",
        ),
        (
            _reviewed(response={"patch": JSON_PATCH, "patchType": ""}),
            f'{NO_ANSWER}: webhook returned invalid response.patchType of ""',
        ),
    ],
)
def test_invalid_response_is_a_failed_call(api, behaviour, why):
    api.hook(behaviour, "mutating")
    answer = api.make_map()
    assert (answer.status, answer.body["reason"]) == (500, "InternalError")
    why = why.replace("UID", api.hooks.seen[0]["uid"])
    assert answer.body["message"] == f'Internal error occurred: failed calling webhook "a.example.com": {why}'


@pytest.mark.parametrize("behaviour", [lambda _: (500, b"boom"), lambda _: _whole("hello"), _reviewed(uid="other")])
@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_failed_call_is_ignored_by_failure_policy(api, kind, behaviour):
    api.hook(behaviour, kind, failurePolicy="Ignore")
    assert api.make_map().status == 201
    assert f'fail_open_count{{name="a.example.com",type="{"admit" if kind == "mutating" else kind}"}} 1' in metrics(api)


def test_webhook_timeout_is_enforced(api):
    async def hang(_request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(60)
        raise AssertionError("it was waited for")

    api.hook(hang, timeoutSeconds=1)
    answer = api.make_map()
    url = f"https://127.0.0.1:{api.hooks.port}/validating/a.example.com?timeout=1s"
    assert answer.body["message"] == (
        'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: '
        f'Post "{url}": context deadline exceeded'
    )


def test_untrusted_certificate_fails_the_call(api):
    url = f"https://127.0.0.1:{api.hooks.port}/validating/a.example.com"
    api.hook(yes, clientConfig={"url": url})
    message = api.make_map().body["message"]
    assert "tls: failed to verify certificate: x509: " in message
    assert not api.hooks.seen


def test_unreachable_server_is_reported_with_its_address(api):
    api.hook(yes, clientConfig={"url": "https://127.0.0.1:1/x/"}, timeoutSeconds=3)
    assert api.make_map().body["message"] == (
        'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: '
        'Post "https://127.0.0.1:1/x?timeout=3s": dial tcp 127.0.0.1:1: connect: connection refused'
    )


def test_missing_service_is_reported_by_name(api):
    api.hook(yes, clientConfig={"service": {"name": "gone", "namespace": "shop"}})
    assert (
        api.make_map()
        .body["message"]
        .endswith('Post "https://gone.shop.svc:443/?timeout=10s": service "gone" not found')
    )


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([{"op": "remove", "path": "/nosuch"}], "nosuch"),
        ([{"op": "replace", "path": "/data", "value": 7}], "data"),
    ],
)
def test_inapplicable_patch_is_an_internal_error(api, operations, message):
    api.hook(lambda _: patch(*operations), "mutating")
    answer = api.make_map()
    assert (answer.status, answer.body["reason"]) == (500, "InternalError")
    assert message in answer.body["message"]


def metrics(api: WebhookApi) -> str:
    return api.get("/metrics").body.decode()


def test_calls_are_counted(api):
    assert "apiserver_admission_webhook" not in metrics(api)
    api.hook(yes, name="a.example.com")
    api.hook(no, name="b.example.com")
    api.make_map()
    text = metrics(api)
    counted = "apiserver_admission_webhook_request_total"
    assert (
        f'{counted}{{code="200",name="a.example.com",operation="CREATE",rejected="false",type="validating"}} 1' in text
    )
    assert (
        f'{counted}{{code="400",name="b.example.com",operation="CREATE",rejected="true",type="validating"}} 1' in text
    )
    refused = "apiserver_admission_webhook_rejection_count"
    labels = 'error_type="no_error",name="b.example.com",operation="CREATE",rejection_code="400",type="validating"'
    assert f"{refused}{{{labels}}} 1" in text


def test_webhooks_excluded_by_conditions_are_counted(api):
    api.hook(no, name="a.example.com", matchConditions=[{"name": "never", "expression": "false"}])
    assert api.make_map().status == 201
    about = '{kind="webhook",name="a.example.com",operation="CREATE",type="validating"}'
    assert f"apiserver_admission_match_condition_exclusions_total{about} 1" in metrics(api)
    assert f"apiserver_admission_match_condition_evaluation_seconds_count{about} 1" in metrics(api)


def test_writes_are_direct_without_webhooks(api):
    chain = api.server.object_store._admission
    assert (chain.dynamic_mutate, chain.dynamic_validate) == (None, None)
    api.hook(yes)
    assert chain.validate is not None
    api.ask("DELETE", f"{CONFIGURATIONS}/validatingwebhookconfigurations/a.example.com")
    assert (chain.dynamic_mutate, chain.dynamic_validate) == (None, None)


def test_connect_is_reviewed_with_its_options(api):
    rule = {"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"]}
    api.hook(no, rules=[rule])
    spec = {"containers": [{"name": "c", "image": "i"}]}
    path = "/api/v1/namespaces/shop/pods"
    api.made(path, {"metadata": {"name": "p"}, "spec": spec})
    answer = api.post(f"{path}/p/exec?command=ls&command=-l&container=c&stdout=true", None)
    assert answer.body["message"] == 'admission webhook "a.example.com" denied the request: not today'
    [seen] = api.hooks.seen
    assert seen["kind"] == {"group": "", "version": "v1", "kind": "PodExecOptions"}
    assert (seen["name"], seen["subResource"], seen["operation"]) == ("p", "exec", "CONNECT")
    assert seen["object"] == {
        "kind": "PodExecOptions", "apiVersion": "v1", "stdout": True, "container": "c", "command": ["ls", "-l"]
    }  # fmt: skip


def test_connect_options_can_be_mutated(api):
    rule = {"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/attach"]}
    api.hook(lambda _: patch({"op": "add", "path": "/container", "value": "other"}), "mutating", rules=[rule])
    path = "/api/v1/namespaces/shop/pods"
    api.made(path, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    answer = api.post(f"{path}/p/attach?container=c", None)
    assert answer.body["message"] == "container other is not valid for pod p"
