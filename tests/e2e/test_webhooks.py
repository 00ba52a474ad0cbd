# SPDX-License-Identifier: Apache-2.0
"""Webhooks and policies around the real program: served over TLS by our own server for them, seen through kubectl."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kubeloop.cli.pki.files import ensure_pki
from kubeloop.clock import SystemClock
from kubeloop.runtime.webhook.server import AdmissionDenied, Review, serve_webhooks
from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.kubectl import Kubectl
from tests.e2e.plane import Plane, config_map

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
_LONGEST_SECONDS = 30  # that a configuration may let a webhook take
_FAREWELL_SECONDS = 0.5  # for TLS connections to end on both sides


async def label(review: Review) -> Mapping[str, Any]:
    obj = review.object or {}
    metadata = obj.get("metadata", {})
    return {**obj, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), "seen": "yes"}}}


async def refuse(review: Review) -> None:
    review.warnings.append("somebody looked at this")
    if review.object and "bad" in review.object.get("data", {}):
        raise AdmissionDenied("bad data", code=422, reason="Invalid")


class WebhookThread:
    """Webhooks in a separate thread. `/hang` sets `called` and responds after `release`."""

    def __init__(self, folder: Path) -> None:
        self._pki = ensure_pki(folder, ["127.0.0.1"], SystemClock().now())
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._released = asyncio.Event()
        self.called = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(GIVE_UP_SECONDS)

    def stop(self) -> None:
        self.release()
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(GIVE_UP_SECONDS)

    def release(self) -> None:
        """Let pending calls respond."""
        self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    async def _hang(self, _: Review) -> None:
        self.called.set()
        await self._released.wait()

    def client(self, path: str) -> dict[str, str]:
        authority = base64.b64encode(self._pki.ca.read_bytes()).decode()
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": authority}

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        certificate, key = self._pki.serving_certificate, self._pki.serving_key
        hooks = {"/label": label, "/refuse": refuse, "/hang": self._hang}
        async with serve_webhooks(hooks, certificate, key, host="127.0.0.1", port=0) as self.port:
            self._ready.set()
            await self._done.wait()
        await asyncio.sleep(_FAREWELL_SECONDS)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookThread]:
    one = WebhookThread(tmp_path_factory.mktemp("hooks"))
    one.start()
    yield one
    one.stop()


@pytest.fixture
def configure(plane: Plane, namespace: str, served: WebhookThread) -> Iterator[Any]:
    """Configures a webhook for this test's namespace alone."""
    made: list[str] = []

    def make(kind: str, path: str, **spec: Any) -> None:
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        hook = {
            "name": f"{path.strip('/')}.example.com",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": served.client(path),
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            **spec,
        }
        name = f"{namespace}{path.replace('/', '-')}"
        where = f"{CONFIGURATIONS}/{kind}webhookconfigurations"
        plane.create(where, {"metadata": {"name": name}, "webhooks": [hook]})
        made.append(f"{where}/{name}")

    yield make
    for where in made:
        assert plane.call("DELETE", where).status == 200


def test_mutating_webhook_changes_created_objects(kubectl: Kubectl, configure: Any) -> None:
    configure("mutating", "/label")
    kubectl("create", "configmap", "m", "--from-literal=k=v")
    assert json.loads(kubectl("get", "configmap", "m", "-o", "json"))["metadata"]["labels"] == {"seen": "yes"}


def test_validating_webhook_rejects_and_warns(kubectl: Kubectl, configure: Any) -> None:
    configure("validating", "/refuse")
    said = kubectl.run("create", "configmap", "m", "--from-literal=bad=1")
    assert said.code == 1
    assert 'admission webhook "refuse.example.com" denied the request: bad data' in said.err
    assert "Warning: somebody looked at this" in said.err
    assert "created" in kubectl("create", "configmap", "m", "--from-literal=good=1")


def test_webhook_timeout_is_enforced(plane: Plane, namespace: str, configure: Any) -> None:
    configure("validating", "/hang", timeoutSeconds=1)
    answer = plane.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map("m"))
    assert answer.status == 500
    assert answer.json["message"].endswith("context deadline exceeded")


def test_hanging_webhook_does_not_block_other_requests(
    plane: Plane, namespace: str, configure: Any, served: WebhookThread
) -> None:
    configure("validating", "/hang", timeoutSeconds=_LONGEST_SECONDS)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(plane.call("POST", path, config_map("m"))))
    served.called.clear()
    waiting.start()
    assert served.called.wait(_LONGEST_SECONDS)
    for number in range(20):
        plane.create("/api/v1/namespaces/default/configmaps", config_map(f"{namespace}-{number}"))
    assert not answers
    served.release()
    waiting.join()
    assert answers[0].status == 201


def test_admission_policy_is_enforced(plane: Plane, kubectl: Kubectl, namespace: str) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
    spec = {
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        },
        "validations": [
            {
                "expression": "object.spec.replicas <= 2",
                "messageExpression": "'at most 2 replicas, not ' + string(object.spec.replicas)",
            }
        ],
    }
    plane.create(f"{CONFIGURATIONS}/validatingadmissionpolicies", {"metadata": {"name": namespace}, "spec": spec})
    binding = {"policyName": namespace, "validationActions": ["Deny"]}
    path = f"{CONFIGURATIONS}/validatingadmissionpolicybindings"
    plane.create(path, {"metadata": {"name": namespace}, "spec": binding})
    said = kubectl.run("create", "deployment", "d", "--image=nginx", "--replicas=3")
    assert said.code == 1
    assert "at most 2 replicas, not 3" in said.err
    assert "created" in kubectl("create", "deployment", "d", "--image=nginx", "--replicas=2")
    assert plane.call("DELETE", f"{path}/{namespace}").status == 200
