# SPDX-License-Identifier: Apache-2.0
"""Tests of node subresources without nodes, and of component statuses."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime

import pytest

from kubeloop.cli.pki.self_signed_certificate import ensure_self_signed
from kubeloop.clock import SystemClock
from kubeloop.http import HttpLimits, Response, serve

TWO = [{"name": "c", "image": "nginx"}, {"name": "d", "image": "nginx"}]
CHOOSE = "a container name must be specified for pod p, choose one of: [c d]"
NO_HOST = "pod p does not have a host assigned"


@pytest.fixture
def pod(pods):
    return pods("p", containers=TWO)


def status_and_message(answer):
    return answer.status, answer.body["message"]


def test_pod_without_a_node_has_an_empty_log(api, pod):
    answer = api.get(f"{pod}/log?container=c")
    assert (answer.status, answer.body) == (204, b"")


def test_single_container_needs_no_name(api, pods):
    assert api.get(f"{pods('one')}/log?previous=true&timestamps=true").status == 204


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("", (400, CHOOSE)),
        ("?container=zz", (400, "container zz is not valid for pod p")),
        (
            "?container=c&tailLines=-1",
            (422, 'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0'),
        ),
        (
            "?container=c&limitBytes=0",
            (422, 'PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0'),
        ),
        (
            "?container=c&sinceSeconds=0",
            (422, 'PodLogOptions "p" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0'),
        ),
        (
            "?container=c&sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z",
            (
                422,
                'PodLogOptions "p" is invalid: []: Forbidden: '
                "at most one of `sinceTime` or `sinceSeconds` may be specified",
            ),
        ),
    ],
)
def test_log_options_are_validated(api, pod, query, answer):
    assert status_and_message(api.get(f"{pod}/log{query}")) == answer


@pytest.mark.parametrize("query", ["tailLines=many", "sinceTime=yesterday"])
def test_unparsable_options_are_bad_requests(api, pod, query):
    assert api.get(f"{pod}/log?container=c&{query}").status == 400


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("exec?container=c&command=ls", NO_HOST),
        ("exec?command=ls", CHOOSE),
        ("attach?container=c", NO_HOST),
        ("portforward?ports=80", NO_HOST),
        ("proxy", "address not allowed"),
        ("proxy/some/path", "address not allowed"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_connect_to_an_unscheduled_pod_is_rejected(api, pod, method, path, message):
    assert status_and_message(api.ask(method, f"{pod}/{path}")) == (400, message)


@pytest.mark.parametrize("path", ["log", "exec", "attach", "portforward", "proxy", "proxy/x"])
def test_connect_to_a_missing_pod_is_not_found(api, path):
    assert status_and_message(api.get(f"/api/v1/namespaces/shop/pods/none/{path}")) == (404, 'pods "none" not found')


@pytest.mark.parametrize("path", ["log?container=c", "exec?container=c", "attach?container=c", "portforward"])
def test_missing_node_is_named(api, pods, path):
    pod = pods("p", containers=TWO, nodeName="gone")
    assert status_and_message(api.get(f"{pod}/{path}")) == (404, 'nodes "gone" not found')


def test_unreachable_node_is_service_unavailable(api, pods):
    api.made("/api/v1/nodes", {"metadata": {"name": "n1"}})
    pod = pods("p", nodeName="n1")
    assert api.get(f"{pod}/log").status == 503
    addresses = [{"type": "InternalIP", "address": "10.1.2.3"}]
    api.patch("merge", "/api/v1/nodes/n1/status", {"status": {"addresses": addresses}})
    for path in (f"{pod}/log", f"{pod}/exec", "/api/v1/nodes/n1/proxy/healthz"):
        status, message = status_and_message(api.get(path))
        assert status == 503
        assert "dial tcp 10.1.2.3:10250" in message


def test_unreachable_pod_address_is_reported(api, pods):
    pod = pods("p", status={"podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]})
    status, message = status_and_message(api.get(f"{pod}:8080/proxy/"))
    assert status == 503
    assert message.startswith("error trying to reach service: dial tcp 10.1.1.1:8080")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("web", (503, 'no endpoints available for service "web"')),
        ("web:80", (503, 'no endpoints available for service "web"')),
        ("https:web:http", (503, 'no endpoints available for service "web"')),
        ("web:81", (503, 'no service port 81 found for service "web"')),
        ("none:80", (404, 'services "none" not found')),
        ("ftp:web:80", (400, 'invalid service request "ftp:web:80"')),
    ],
)
def test_a_service_without_endpoints_is_unavailable(api, name, answer):
    spec = {"ports": [{"name": "http", "port": 80}]}
    api.made("/api/v1/namespaces/shop/services", {"metadata": {"name": "web"}, "spec": spec})
    assert status_and_message(api.get(f"/api/v1/namespaces/shop/services/{name}/proxy/")) == answer


def test_proxy_to_a_missing_node_is_not_found(api):
    assert status_and_message(api.get("/api/v1/nodes/none/proxy/")) == (404, 'nodes "none" not found')


# -- components --------------------------------------------------------------------------------------------------------


@pytest.fixture
def nobody_listens(api):
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    for component in ("controller-manager", "scheduler"):
        api.server.components.set_port(component, port)
    return port


@pytest.mark.parametrize(
    ("status", "condition"),
    [
        (200, {"type": "Healthy", "status": "True", "message": "ok"}),
        (500, {"type": "Healthy", "status": "False", "message": "HTTP probe failed with statuscode: 500"}),
    ],
)
def test_a_component_is_asked_for_its_health(api, tmp_path, status, condition):
    async def answer(request):
        assert (request.path, request.headers["user-agent"]) == ("/healthz", "kube-probe/1.37")
        return Response(status, b"ok", "text/plain")

    async def listen():
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*ensure_self_signed(tmp_path, "x", ("localhost",), datetime.now(UTC)))
        return await serve(answer, "127.0.0.1", 0, tls, HttpLimits(), SystemClock())

    server = api._runner.run(listen())
    api.server.components.set_port("scheduler", server.port)
    assert api.get("/api/v1/componentstatuses/scheduler").body["conditions"] == [condition]
    api._runner.run(server.close(1))


def test_a_component_that_nobody_runs_is_unhealthy(api, nobody_listens):
    (condition,) = api.get("/api/v1/componentstatuses/scheduler").body["conditions"]
    where = f"127.0.0.1:{nobody_listens}"
    refused = f'Get "https://{where}/healthz": dial tcp {where}: connect: connection refused'
    assert condition == {"type": "Healthy", "status": "False", "message": refused}


def test_a_component_of_the_process_is_asked_directly(api, nobody_listens):
    problems = ["job-controller: stuck", ""]
    api.server.components.set_check("controller-manager", lambda: problems.pop(0))
    found = [api.get("/api/v1/componentstatuses/controller-manager").body["conditions"][0] for _ in range(2)]
    assert found == [
        {"type": "Healthy", "status": "False", "message": "job-controller: stuck"},
        {"type": "Healthy", "status": "True", "message": "ok"},
    ]


def test_components_are_listed_with_a_warning(api, nobody_listens):
    answer = api.get("/api/v1/componentstatuses")
    assert answer.headers["Warning"] == '299 - "v1 ComponentStatus is deprecated in v1.19+"'
    health = {item["metadata"]["name"]: item["conditions"][0]["status"] for item in answer.body["items"]}
    assert health == {"controller-manager": "False", "etcd-0": "True", "scheduler": "False"}


def test_single_component_can_be_read(api):
    component = api.get("/api/v1/componentstatuses/etcd-0").body
    assert component["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]


def test_an_unknown_component_is_not_found(api):
    answer = api.get("/api/v1/componentstatuses/none")
    assert status_and_message(answer) == (404, 'componentstatus "none" not found')


def test_components_can_be_shown_as_a_table(api, nobody_listens):
    table = api.get("/api/v1/componentstatuses", accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    assert [row["cells"][:2] for row in table["rows"]] == [
        ["controller-manager", "Unhealthy"],
        ["etcd-0", "Healthy"],
        ["scheduler", "Unhealthy"],
    ]


def test_components_cannot_be_changed(api):
    assert api.ask("DELETE", "/api/v1/componentstatuses/etcd-0").status == 405
