# SPDX-License-Identifier: Apache-2.0
"""Being connected to containers, and the pages of nodes, on the virtual clock."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from kubeloop.api.generated.core_v1 import ContainerPort, ResourceRequirements, ServiceAccount
from kubeloop.api.generated.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from kubeloop.api.kubelet_requests import TerminalSize
from kubeloop.api.scalars.wire import Quantity
from kubeloop.apiserver.authentication import Authenticator
from kubeloop.apiserver.request.context import User
from kubeloop.cli.kubelet.server import AccessDenied, KubeletAccess
from kubeloop.cli.kubelet.zpages import kubelet_zpages
from kubeloop.http import Request, Response
from kubeloop.kubelet.agent_config import NodeAgentConfig
from kubeloop.kubelet.node_status.served_nodes import STATE_ANNOTATION
from kubeloop.kubelet.server.endpoints import subresources_of
from kubeloop.testing import Cluster, builders
from tests.bounds import GIVE_UP_SECONDS
from tests.kubelet.pods import get, new_agent, put, runs, state


class Client:
    """Client of a container's streams."""

    stdin, tty = True, False
    size: TerminalSize | None = None

    def __init__(self) -> None:
        self.said: asyncio.Queue[bytes] = asyncio.Queue()
        self.heard = b""

    async def read(self) -> bytes:
        return await self.said.get()

    async def write(self, data: bytes) -> None:
        self.heard += data

    async def write_error(self, data: bytes) -> None:
        self.heard += data


class AlwaysAdmin:
    """Authenticates every request as the administrator."""

    remote = None

    def authenticate(self, request: Request) -> User:
        return User("admin", ("system:masters",))

    def clear_credentials(self, request: Request) -> None:
        pass


def ask(cluster: Cluster, path: str, method: str = "GET", **headers: str) -> Response:
    """Ask the API server as its administrator."""
    cluster.server.authenticator = cast(Authenticator, AlwaysAdmin())

    async def call() -> Response:
        path_only, _, query = path.partition("?")
        return await cluster.server.handle(Request(method, path_only, query, headers))

    return cluster.run(call())


def text(answer: Response) -> str:
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    return body.decode()


def test_attached_client_receives_output_until_the_end(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    command = "echo early; sleep 10; echo late; sleep 5; exit 1"
    put(cluster, restart_policy="Never", containers=(runs("sh", "-c", command),))
    client, began = Client(), cluster.clock.monotonic()
    cluster.run(fleet.dialer.attach(get(cluster), "app", client))
    assert client.heard == b"late\n"
    assert 15 <= cluster.clock.monotonic() - began < 15.1


def test_attached_client_is_disconnected_when_the_container_ends(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    put(cluster)

    async def attach_and_delete() -> None:
        attached = asyncio.ensure_future(fleet.dialer.attach(get_now, "app", Client()))
        await asyncio.sleep(1)
        await cluster.async_client.delete("pods", "pod", "default")
        await asyncio.wait_for(attached, GIVE_UP_SECONDS)

    get_now = get(cluster)
    cluster.run(attach_and_delete())


def test_stdin_once_container_ends_with_its_client(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    put(cluster, restart_policy="Never", containers=(runs("sh", stdin=True, stdin_once=True),))
    client = Client()
    client.said.put_nowait(b"echo hello\nexit 3\n")
    cluster.run(fleet.dialer.attach(get(cluster), "app", client))
    cluster.settle()
    assert client.heard == b"hello\n"
    assert (get(cluster).status.phase, state(get(cluster))) == ("Failed", "ended 3")


@pytest.mark.parametrize(
    ("container", "why"),
    [("app", ""), ("", ""), ("other", 'container not found ("other")')],
)
def test_running_containers_can_be_connected_to(cluster: Cluster, container: str, why: str) -> None:
    fleet = cluster.add_nodes(1)
    put(cluster)
    assert fleet.dialer.why_no_stream(get(cluster), container) == why


def test_stopped_containers_reject_connections(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    put(cluster, "done", restart_policy="Never", containers=(runs("true"),))
    put(cluster, "slow", script={"start-delay": "1m"})
    put(cluster, "odd", script={"start-error": "ErrImagePull"})
    why = fleet.dialer.why_no_stream
    assert why(get(cluster, "done"), "app") == "container is in CONTAINER_EXITED state"
    assert why(get(cluster, "done"), "") == 'pod not found ("done_default")'
    assert why(get(cluster, "slow"), "app") == "container is in CONTAINER_CREATED state"
    assert why(get(cluster, "odd"), "app") == 'container not found ("app")'


def test_kubelet_pages_are_proxied_by_the_api_server(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    asks = ResourceRequirements(requests={"cpu": Quantity("1"), "memory": Quantity("1Gi")})
    put(cluster, "here", containers=(builders.container(resources=asks),))
    put(cluster, "there", node="n2")
    cluster.advance(10)
    node = "/api/v1/nodes/n1/proxy"
    assert text(ask(cluster, f"{node}/healthz")) == "ok"
    assert text(ask(cluster, f"{node}/healthz?verbose")).startswith("[+]ping ok\n")
    assert [one["metadata"]["name"] for one in json.loads(text(ask(cluster, f"{node}/pods")))["items"]] == ["here"]
    labels = 'container="app",namespace="default",pod="here"'
    resources = text(ask(cluster, f"{node}/metrics/resource"))
    assert f"container_cpu_usage_seconds_total{{{labels}}} 5\n" in resources
    assert f"container_memory_working_set_bytes{{{labels}}} 5.36870912e+08\n" in resources
    assert "kubelet_running_pods 1\n" in text(ask(cluster, f"{node}/metrics"))
    summary: Any = json.loads(text(ask(cluster, f"{node}/stats/summary")))
    assert summary["pods"][0]["containers"][0]["cpu"]["usageNanoCores"] == 500_000_000
    assert summary["node"]["memory"]["usageBytes"] == (512 + 256) << 20
    assert text(ask(cluster, f"{node}/run/default/here/app?cmd=hostname", "POST")) == "here\n"
    assert text(ask(cluster, "/api/v1/nodes/n1:10250/proxy/healthz")) == "ok"
    refused = ask(cluster, "/api/v1/nodes/n1:2379/proxy/healthz")
    assert refused.status == 503
    assert ":2379: connect: connection refused" in text(refused)


def test_results_of_health_checks_are_metrics_of_the_node(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    node = "/api/v1/nodes/n1/proxy"
    ask(cluster, f"{node}/healthz")
    assert 'kubernetes_healthcheck{name="syncloop",type="healthz"} 1\n' in text(ask(cluster, f"{node}/metrics/slis"))
    assert "kubernetes" not in text(ask(cluster, "/api/v1/nodes/n2/proxy/metrics/slis"))
    assert text(ask(cluster, f"{node}/metrics/slis", "DELETE")) == "metrics reset\n"
    assert "kubernetes" not in text(ask(cluster, f"{node}/metrics/slis"))


def test_nodes_show_flags_and_status(cluster: Cluster) -> None:
    pages = kubelet_zpages({"node-ip": "10.0.0.1"}, cluster.clock)
    fleet = new_agent(cluster, NodeAgentConfig(count=1, pages=pages))
    cluster.settle()
    cluster.server.nodes.add_local(fleet.dialer)
    node = "/api/v1/nodes/n1/proxy"
    assert text(ask(cluster, f"{node}/flagz")).endswith("node-ip=10.0.0.1\n")
    assert text(ask(cluster, f"{node}/statusz")).startswith("\nkubelet statusz\n")
    asked = ask(cluster, f"{node}/flagz", accept="application/json;as=Flagz;v=v1beta1;g=config.k8s.io")
    assert json.loads(text(asked))["flags"] == {"node-ip": "10.0.0.1"}
    assert ask(cluster, f"{node}/statusz", accept="application/json").status == 406
    assert ask(cluster, f"{node}/flagz/x").status == 404


def test_missing_pages_return_404(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    node = "/api/v1/nodes/n1/proxy"
    assert ask(cluster, f"{node}/nothing").status == 404
    assert ask(cluster, f"{node}/pods", "POST").status == 405
    assert text(ask(cluster, f"{node}/containerLogs/default/none/app")) == 'pod "none" does not exist'
    assert text(ask(cluster, f"{node}/containerLogs/default/pod/x")) == 'container "x" not found in pod "pod"'
    assert ask(cluster, f"{node}/containerLogs/default/pod/app?tailLines=x").status == 400
    assert text(ask(cluster, f"{node}/exec/default/none/app?command=ls&output=1")) == "pod does not exist"
    assert ask(cluster, f"{node}/exec/default/pod/app?command=ls&output=1").status == 400
    cluster.client.patch("nodes", "n1", {"metadata": {"annotations": {STATE_ANNOTATION: "stopped"}}})
    cluster.settle()
    assert ask(cluster, f"{node}/healthz").status == 503


def test_pods_are_reachable_through_proxies(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(builders.container(ports=(ContainerPort(container_port=80),)),))
    pods = "/api/v1/namespaces/default/pods"
    page = "simulated container app of pod default/pod on node n1, port 80: "
    assert text(ask(cluster, f"{pods}/pod/proxy")) == f"{page}/\n"
    assert text(ask(cluster, f"{pods}/http:pod:80/proxy/a/b?c=d")) == f"{page}/a/b?c=d\n"
    refused = ask(cluster, f"{pods}/pod:81/proxy/")
    assert (refused.status, "connect: connection refused" in text(refused)) == (503, True)


@pytest.mark.parametrize(
    ("path", "needed"),
    [
        ("/pods", ("pods", "proxy")),
        ("/runningpods/", ("pods", "proxy")),
        ("/healthz/ping", ("healthz", "proxy")),
        ("/configz", ("configz", "proxy")),
        ("/metrics/resource", ("metrics",)),
        ("/stats/summary", ("stats",)),
        ("/logs/", ("log",)),
        ("/exec/default/pod/app", ("proxy",)),
        ("/podsx", ("proxy",)),
    ],
)
def test_each_kubelet_path_requires_one_of_a_few_permissions(path: str, needed: tuple[str, ...]) -> None:
    assert subresources_of(path) == needed


def test_kubelet_port_authorizes_by_the_api_server(cluster: Cluster) -> None:
    access = KubeletAccess(cluster.async_client, cluster.clock)
    cluster.client.create(ServiceAccount(metadata=builders.metadata("robot", "default")))
    rule = PolicyRule(api_groups=("",), resources=("nodes/metrics",), verbs=("get",))
    cluster.client.create(ClusterRole(metadata=builders.metadata("seer"), rules=(rule,)))
    robot = User("system:serviceaccount:default:robot")

    def verdict(path: str) -> str:
        async def look() -> str:
            request = Request("GET", path, "", {"authorization": "Bearer t"})
            access._users.put("t", robot, 100)
            try:
                await access.check(request, "n1")
            except AccessDenied as denied:
                return denied.message
            return "yes"

        return cluster.run(look())

    assert verdict("/metrics") == (
        "Forbidden (user=system:serviceaccount:default:robot, verb=get, resource=nodes, subresource(s)=[metrics])\n"
    )
    subject = Subject(kind="ServiceAccount", name="robot", namespace="default")
    cluster.client.create(
        ClusterRoleBinding(
            metadata=builders.metadata("seer"),
            role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="seer"),
            subjects=(subject,),
        )
    )
    assert verdict("/metrics").startswith("Forbidden")  # the result is cached for half a minute
    cluster.advance(31)
    assert verdict("/metrics") == "yes"
    assert verdict("/pods").endswith("subresource(s)=[pods proxy])\n")


def test_kubelet_port_rejects_unauthenticated_clients(cluster: Cluster) -> None:
    access = KubeletAccess(cluster.async_client, cluster.clock)
    for headers in ({}, {"authorization": "Basic x"}, {"authorization": "Bearer unknown"}):
        with pytest.raises(AccessDenied, match="Unauthorized"):
            cluster.run(access.check(Request("GET", "/pods", "", headers), "n1"))
