# SPDX-License-Identifier: Apache-2.0
"""Equal test environments for every cloud: instances that are added, stopped and removed, and a provider for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import yaml

from kubeloop.api.generated.core_v1 import Node, NodeAddress, NodeSpec, NodeStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import SystemClock
from kubeloop.cloud.provider import CloudProvider
from kubeloop.cloud.provider_registry import ProviderDependencies, load
from kubeloop.runtime.informer.informer import SharedInformerFactory
from tests.bounds import GIVE_UP_SECONDS
from tests.cloud.memory_cloud import MemoryCloud

CLUSTER = "kubernetes"


class CloudEnvironment(Protocol):
    """A cloud, and what a test may do to it behind the provider's back."""

    provider: CloudProvider

    def add_machine(self) -> Node:
        """A machine, and the node that it will register as; without a provider id yet."""

    def stop_machine(self, node: Node) -> None: ...

    def remove_machine(self, node: Node) -> None: ...

    def know(self, *nodes: Node) -> None:
        """Set the nodes of the caches."""


def node_of(name: str, provider_id: str = "", address: str = "") -> Node:
    addresses = (NodeAddress(type="InternalIP", address=address),) if address else ()
    return Node(
        metadata=ObjectMeta(name=name, uid=f"uid-of-{name}"),
        spec=NodeSpec(provider_id=provider_id),
        status=NodeStatus(addresses=addresses),
    )


class _Unreachable:
    """Build caches without an API server."""


class _InformerCaches:
    def __init__(self) -> None:
        self.informers = SharedInformerFactory(Client(_Unreachable()), SystemClock())  # type: ignore[arg-type]

    def fill(self, kind: Any, *objects: Any) -> None:
        self.informers.for_resource(resource_of_class(kind)).replace(objects, "1")

    def around(self, config_file: str) -> ProviderDependencies:
        return ProviderDependencies(Client(_Unreachable()), self.informers, SystemClock(), config_file)  # type: ignore[arg-type]


class MemoryEnvironment:
    def __init__(self) -> None:
        self.cloud = MemoryCloud()
        self.provider: CloudProvider = self.cloud

    def add_machine(self) -> Node:
        name = f"n{len(self.cloud.instances.machines)}"
        self.cloud.instances.add(name, instance_type="small", zone="z", region="r")
        return node_of(name)

    def stop_machine(self, node: Node) -> None:
        self.cloud.instances.machines[node.metadata.name].is_shut_down = True

    def remove_machine(self, node: Node) -> None:
        del self.cloud.instances.machines[node.metadata.name]

    def know(self, *nodes: Node) -> None:
        """Has no caches."""


class LocalEnvironment:
    def __init__(self, folder: Path, namespace: str) -> None:
        self._file = folder / "cloud.yaml"
        self._namespace = namespace
        self._nodes: list[dict[str, Any]] = []
        self._caches = _InformerCaches()
        self._write()
        self.provider = load("local", self._caches.around(str(self._file)))

    def add_machine(self) -> Node:
        name = f"n{len(self._nodes) + 1}"
        place = {"type": "InternalIP", "address": f"10.0.0.{len(self._nodes) + 1}"}
        self._nodes.append({"name": name, "instanceType": "small", "zone": "z", "region": "r", "addresses": [place]})
        self._write()
        return node_of(name, address=place["address"])

    def stop_machine(self, node: Node) -> None:
        for one in self._nodes:
            if one["name"] == node.metadata.name:
                one["shutDown"] = True
        self._write()

    def remove_machine(self, node: Node) -> None:
        self._nodes = [one for one in self._nodes if one["name"] != node.metadata.name]
        self._write()

    def know(self, *nodes: Node) -> None:
        self._caches.fill(Node, *nodes)

    def _write(self) -> None:
        said: dict[str, Any] = {"nodes": self._nodes, "loadBalancers": {"network": "127.77.0.0/24"}}
        if self._namespace:
            said["routes"] = {"namespace": self._namespace}
        self._file.write_text(yaml.safe_dump(said))


class AwsEnvironment:
    """Against moto, which plays Amazon's part on a loopback port."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        import boto3

        self.ec2 = boto3.client("ec2", region_name="us-east-1", endpoint_url=endpoint)
        self.elb = boto3.client("elbv2", region_name="us-east-1", endpoint_url=endpoint)
        self._caches = _InformerCaches()
        vpc = self.ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
        table = self.ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
        tag = {"Key": f"kubernetes.io/cluster/{CLUSTER}", "Value": "owned"}
        self.ec2.create_tags(Resources=[table], Tags=[tag])
        path = folder / "aws.yaml"
        path.write_text(yaml.safe_dump({"region": "us-east-1", "endpointURL": endpoint, "vpc": vpc}))
        self.provider = load("aws", self._caches.around(str(path)))
        self._ids: dict[str, str] = {}

    def add_machine(self) -> Node:
        made = self.ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1, InstanceType="t3.small")[
            "Instances"
        ][0]
        self._ids[made["PrivateDnsName"]] = made["InstanceId"]
        return node_of(made["PrivateDnsName"])

    def stop_machine(self, node: Node) -> None:
        self.ec2.stop_instances(InstanceIds=[self._ids[node.metadata.name]])

    def remove_machine(self, node: Node) -> None:
        self.ec2.terminate_instances(InstanceIds=[self._ids[node.metadata.name]])

    def know(self, *nodes: Node) -> None:
        self._caches.fill(Node, *nodes)


@contextmanager
def network_namespace() -> Iterator[str]:
    """The name of a network namespace with one link, gone afterwards; empty where we may not make any."""
    name = f"kubeloop-test-{os.getpid()}"
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None or not _ip("netns", "add", name):
        yield ""
        return
    try:
        steps = ("link add b0 type bridge", "addr add 10.0.0.254/24 dev b0", "link set b0 up")
        yield name if all(_ip("-n", name, *step.split()) for step in steps) else ""
    finally:
        _ip("netns", "del", name)


def _ip(*arguments: str) -> bool:
    return subprocess.run(["ip", *arguments], capture_output=True, timeout=GIVE_UP_SECONDS).returncode == 0


@contextmanager
def moto_server() -> Iterator[str]:
    """Return the address of the moto server, with its state reset."""
    from moto.server import ThreadedMotoServer

    credentials = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    before = {name: os.environ.get(name) for name in credentials}
    os.environ.update(credentials)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        # The state is the process's; another test's must not be found.
        urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def memory_environment(_: Path, __: ExitStack) -> CloudEnvironment:
    return MemoryEnvironment()


def local_environment(folder: Path, parts: ExitStack) -> CloudEnvironment:
    return LocalEnvironment(folder, parts.enter_context(network_namespace()))


def aws_environment(folder: Path, parts: ExitStack) -> CloudEnvironment:
    return AwsEnvironment(folder, parts.enter_context(moto_server()))


ENVIRONMENTS: dict[str, Callable[[Path, ExitStack], CloudEnvironment]] = {
    "memory": memory_environment,
    "local": local_environment,
    "aws": aws_environment,
}
