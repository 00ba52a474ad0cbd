"""What nodes would serve, as far as it can be told without them; and how the components fare."""

from __future__ import annotations

import pytest

TWO = [{"name": "c", "image": "nginx"}, {"name": "d", "image": "nginx"}]
CHOOSE = "a container name must be specified for pod p, choose one of: [c d]"
NO_HOST = "pod p does not have a host assigned"


@pytest.fixture
def pod(pods):
    return pods("p", containers=TWO)


def told(answer):
    return answer.status, answer.body["message"]


def test_a_pod_without_a_node_has_written_nothing(api, pod):
    answer = api.get(f"{pod}/log?container=c")
    assert (answer.status, answer.body) == (204, b"")


def test_the_only_container_needs_no_name(api, pods):
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
def test_options_of_logs_are_checked(api, pod, query, answer):
    assert told(api.get(f"{pod}/log{query}")) == answer


@pytest.mark.parametrize("query", ["tailLines=many", "sinceTime=yesterday"])
def test_options_that_cannot_be_read_are_bad_requests(api, pod, query):
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
def test_nothing_connects_to_a_pod_without_a_node(api, pod, method, path, message):
    assert told(api.ask(method, f"{pod}/{path}")) == (400, message)


@pytest.mark.parametrize("path", ["log", "exec", "attach", "portforward", "proxy", "proxy/x"])
def test_nothing_connects_to_a_pod_that_is_not_there(api, path):
    assert told(api.get(f"/api/v1/namespaces/shop/pods/none/{path}")) == (404, 'pods "none" not found')


@pytest.mark.parametrize("path", ["log?container=c", "exec?container=c", "attach?container=c", "portforward"])
def test_a_node_that_is_not_there_is_named(api, pods, path):
    pod = pods("p", containers=TWO, nodeName="gone")
    assert told(api.get(f"{pod}/{path}")) == (404, 'nodes "gone" not found')


def test_a_node_that_cannot_be_reached_is_a_service_unavailable(api, pods):
    api.made("/api/v1/nodes", {"metadata": {"name": "n1"}})
    pod = pods("p", nodeName="n1")
    assert api.get(f"{pod}/log").status == 503
    addresses = [{"type": "InternalIP", "address": "10.1.2.3"}]
    api.patch("merge", "/api/v1/nodes/n1/status", {"status": {"addresses": addresses}})
    for path in (f"{pod}/log", f"{pod}/exec", "/api/v1/nodes/n1/proxy/healthz"):
        status, message = told(api.get(path))
        assert status == 503
        assert "dial tcp 10.1.2.3:10250" in message


def test_a_pod_with_an_address_is_not_reached_either(api, pods):
    pod = pods("p", status={"podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]})
    status, message = told(api.get(f"{pod}:8080/proxy/"))
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
    assert told(api.get(f"/api/v1/namespaces/shop/services/{name}/proxy/")) == answer


def test_a_proxy_to_a_node_that_is_not_there_is_not_found(api):
    assert told(api.get("/api/v1/nodes/none/proxy/")) == (404, 'nodes "none" not found')


# -- components --------------------------------------------------------------------------------------------------------


def test_components_are_listed_with_a_warning(api):
    answer = api.get("/api/v1/componentstatuses")
    assert answer.headers["Warning"] == '299 - "v1 ComponentStatus is deprecated in v1.19+"'
    health = {item["metadata"]["name"]: item["conditions"][0]["status"] for item in answer.body["items"]}
    assert health == {"controller-manager": "False", "etcd-0": "True", "scheduler": "False"}


def test_one_component_can_be_asked_for(api):
    component = api.get("/api/v1/componentstatuses/etcd-0").body
    assert component["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]


def test_an_unknown_component_is_not_found(api):
    answer = api.get("/api/v1/componentstatuses/none")
    assert told(answer) == (404, 'componentstatus "none" not found')


def test_components_can_be_shown_as_a_table(api):
    table = api.get("/api/v1/componentstatuses", accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    assert [row["cells"][:2] for row in table["rows"]] == [
        ["controller-manager", "Unhealthy"],
        ["etcd-0", "Healthy"],
        ["scheduler", "Unhealthy"],
    ]


def test_components_cannot_be_changed(api):
    assert api.ask("DELETE", "/api/v1/componentstatuses/etcd-0").status == 405
