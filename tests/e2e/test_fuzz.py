# SPDX-License-Identifier: Apache-2.0
"""Whatever is sent to the paths that it describes, the server answers in its own words and stays up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.e2e.openapi_requests import GeneratedRequest, operations_of, requests
from tests.e2e.plane import Answer, Plane, config_map
from tests.e2e.workloads import deployment, node, pod

EXAMPLES = 600
# Upstream returns a 5xx for these too; each with a Status that explains it.
UPSTREAMS_FAULTS = re.compile(
    r"resourceVersion: Invalid value"
    r"|resourceVersion should not be set on objects to be created"
    r"|failed to create (typed patch object|manager)"
    r"|unable to find api field in struct"
    r"|does not contain declared merge key"
    r"|no endpoints available for service"
    r"|no preferred addresses found"
    r"|target\.(kind|name): "  # of a binding
)
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "a"},
    "spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "name": "web"}, {"port": 443, "name": "tls"}]},
}
SEEDS: dict[str, Any] = {
    "/api/v1/namespaces/{namespace}/configmaps": config_map("a", x="1"),
    "/api/v1/namespaces/{namespace}/pods": pod("a", tier="front"),
    "/api/v1/namespaces/{namespace}/services": SERVICE,
    "/api/v1/nodes": node("a"),
    "/apis/apps/v1/namespaces/{namespace}/deployments": deployment("a"),
    "/apis/apps/v1/namespaces/{namespace}/statefulsets": {**deployment("a"), "kind": "StatefulSet"},
}


class FuzzTarget:
    """A server of the fuzz run's own, with one connection that is kept while it lasts."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.connection = plane.connection()
        roots = plane.get("/openapi/v3")["paths"].values()
        documents = [plane.get(root["serverRelativeURL"]) for root in roots]
        self.operations = [operation for document in documents for operation in operations_of(document)]

    def seed(self) -> None:
        """Objects that the requests can meet."""
        self.plane.create("/api/v1/namespaces", {"metadata": {"name": "fuzz"}})
        self.plane.call("POST", "/api/v1/namespaces/fuzz/serviceaccounts", {"metadata": {"name": "default"}})
        for path, document in SEEDS.items():
            self.plane.call("POST", path.replace("{namespace}", "fuzz"), document)

    def send(self, made: GeneratedRequest) -> Answer:
        self.connection.request(made.method, made.path, made.body, made.headers)
        answer = self.connection.getresponse()
        endless = answer.status == 200 and ("watch" in made.path or "follow" in made.path)
        body = b"" if endless else answer.read()
        if endless or answer.will_close:
            self.connection.close()
        return Answer(answer.status, answer.headers, body)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzTarget]:
    plane = Plane(tmp_path_factory.mktemp("fuzzed"), "--ephemeral")
    plane.start()
    made = FuzzTarget(plane)
    made.seed()
    yield made
    made.connection.close()
    plane.close()


def check(made: GeneratedRequest, answer: Answer) -> None:
    """Check that no response is a server error, and every rejection is a complete Status."""
    if answer.status < 400 or made.method == "HEAD":
        return
    if answer.status == 404 and answer.body == b"404 page not found\n":
        return  # a path that no API has
    status = yaml.safe_load(answer.body)
    assert isinstance(status, dict), (made, answer.status, answer.body)
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure"), (made, status)
    assert status["code"] == answer.status
    assert status["message"]
    if answer.status in (500, 502, 503):
        assert UPSTREAMS_FAULTS.search(status["message"]), (made, status)


def test_any_request_to_a_described_path(target: FuzzTarget) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(requests(target.operations, SEEDS))
    def run(made: GeneratedRequest) -> None:
        check(made, target.send(made))
        assert target.plane.is_running(), made

    run()
    assert target.plane.call("GET", "/readyz").body == b"ok"
    assert target.plane.errors() == ""


def test_writes_of_mutated_objects(target: FuzzTarget) -> None:
    seeded = {*SEEDS, *(f"{path}/{{name}}" for path in SEEDS)}
    writable = [operation for operation in target.operations if operation.path in seeded]

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(requests(writable, SEEDS))
    def run(made: GeneratedRequest) -> None:
        check(made, target.send(made))

    run()
    assert target.plane.call("GET", "/readyz").body == b"ok"
    assert target.plane.errors() == ""


SEGMENTS = [
    "api",
    "apis",
    "v1",
    "v2",
    "apps",
    "namespaces",
    "fuzz",
    "pods",
    "a",
    "status",
    "log",
    "watch",
    "",
    "..",
    "%00",
]


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    path=st.lists(st.sampled_from(SEGMENTS) | st.text(max_size=5), max_size=8), method=st.sampled_from(["GET", "POST"])
)
@example(path=["api", "v1", "watch", "namespaces", "fuzz"], method="GET")
@example(path=["openapi", "v3", "apis", "nothing"], method="GET")
def test_arbitrary_paths(target: FuzzTarget, path: list[str], method: str) -> None:
    quoted = quote("/".join(path), safe="/%")
    made = GeneratedRequest(method, "/" + quoted + "?timeoutSeconds=1", {}, None)
    answer = target.send(made)
    assert answer.status < 500, (made, answer.body)
