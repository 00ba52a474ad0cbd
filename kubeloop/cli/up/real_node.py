# SPDX-License-Identifier: Apache-2.0
"""Real node of `kubeloop up --runtime`: this host, with the kubelet in the process of the control plane.

The kubelet is that of `kubeloop kubelet`: it talks to the API server over its port, with only a node's rights.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import socket
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import yaml

from kubeloop.api.errors import AlreadyExists
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.rbac_v1 import ClusterRoleBinding, RoleRef, Subject
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.apiserver.run import advertised_address
from kubeloop.cli.kubelet.bootstrap import CURRENT_CLIENT, kubeconfig_of
from kubeloop.cli.kubelet.config_files import load_configuration
from kubeloop.cli.kubelet.flags import add_flags, names_of
from kubeloop.cli.kubelet.node_record import (
    NodeRecord,
    foreign_pods,
    node_folder,
    remove_pods_of,
    save_node_record,
)
from kubeloop.cli.kubelet.run import KubeletOptions, KubeletProgram
from kubeloop.cli.local_clusters.registry import ClusterRecord
from kubeloop.cli.network.removal import remove_node_network
from kubeloop.cli.program.files import write_private
from kubeloop.cli.program.parser import CommandParser
from kubeloop.cli.up.node_network.node_network import (
    NodeNetwork,
    network_folder,
    prepare_network,
    start_node_network,
)
from kubeloop.cli.up.node_network.plan import NodeIdentity, NodeNetworkPlan
from kubeloop.cli.up.node_network.requirements import MissingRequirement, check_service_range
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.node import connect_runtime

_SOCKETS: Final = {
    "containerd": ("/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock"),
    "cri-o": ("/run/crio/crio.sock", "/var/run/crio/crio.sock"),
}
_SCHEME: Final = "unix://"
_KUBELET_PORT: Final = 10250
_REGISTER_SECONDS: Final = 60.0
_CALL_SECONDS: Final = 10.0
_REMOVAL_SECONDS: Final = 120.0
_SHOWN_PODS: Final = 3  # of another cluster, in an error
# Lets nodes renew their own client certificates, as kubeadm does.
_ROTATION: Final = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"


class RealNodePlan(NamedTuple):
    """Settings of the real node: its runtime, and further flags of the kubelet."""

    endpoint: str
    client_ca: Path  # of the API server's client certificate
    arguments: tuple[str, ...]
    is_ephemeral: bool = False  # its pods and its network are removed at the end
    network: NodeNetworkPlan | None = None  # None: the network of the host is left alone


def find_runtime(given: str) -> str:
    """Return the endpoint of a container runtime by its name or socket. Raises `StartupError`."""
    if sys.platform != "linux":
        raise StartupError("--runtime needs Linux: containers of other systems are not supported")
    if os.geteuid() != 0:
        raise StartupError("--runtime needs root: a kubelet mounts volumes and creates control groups")
    if given.startswith(_SCHEME):
        candidates: Sequence[str] = (given.removeprefix(_SCHEME),)
    elif (known := _SOCKETS.get({"crio": "cri-o"}.get(given, given))) is not None:
        candidates = known
    else:
        raise StartupError(f"--runtime {given!r} is not one of {', '.join(_SOCKETS)} and unix://PATH")
    found = next((one for one in candidates if _is_socket(one)), None)
    if found is None:
        raise StartupError(
            f"no container runtime: there is no socket at {' or '.join(candidates)}; is {given} running?"
        )
    return f"{_SCHEME}{found}"


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


class RealNode:
    """Running real node; created by `start_real_node`."""

    def __init__(
        self,
        program: KubeletProgram,
        record: NodeRecord,
        is_ephemeral: bool,
        network: NodeNetwork | None = None,
        network_port: int = 0,
    ) -> None:
        self._program = program
        self._is_ephemeral = is_ephemeral
        self._network = network
        self.record = record
        self._network_port = network_port  # of the network's health; 0 without a network

    @property
    def has_failed(self) -> bool:
        """True if the kubelet or the network ended by a failure."""
        return self._program.has_failed or (self._network is not None and self._network.has_failed)

    def add_to(self, record: ClusterRecord) -> ClusterRecord:
        """Return the record of the cluster with this node."""
        return msgspec.structs.replace(
            record, real_node=self.record.name, runtime=self.record.endpoint, network_port=self._network_port
        )

    async def close(self) -> None:
        """Stop the kubelet, then the network. Containers run on with their network, unless the cluster is ephemeral."""
        await self._program.close()
        try:
            if self._is_ephemeral:
                connection = await connect_runtime(self.record.endpoint, _REMOVAL_SECONDS)
                await remove_pods_of(self.record, connection)
                await connection.channel.close()
        finally:
            if self._network is not None:
                await self._network.close()
        if self._network is not None and self._is_ephemeral:
            await self._network.remove()


async def start_real_node(
    plan: RealNodePlan, data: Path, admin_kubeconfig: str, client: Client, clock: Clock
) -> RealNode:
    """Start the kubelet of this host; returns when its node is registered. Raises `StartupError`."""
    folder = node_folder(data)
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    options = _kubelet_options(plan, folder)
    try:
        names, settings = names_of(options), load_configuration(options)
    except ValueError as error:
        raise StartupError(str(error)) from None
    record = NodeRecord(names.one, plan.endpoint, str(options.root_dir), settings.cgroup_root or "/")
    await _check_runtime(record)
    prepared = None
    if plan.network is not None:
        await check_service_range(plan.network.dns_ip, client)
        prepared = await prepare_network(plan.network, _identity_of(plan, data, record), admin_kubeconfig)
    save_node_record(data, record)
    _write_kubeconfigs(options, admin_kubeconfig)
    await _allow_rotation(client)
    program = KubeletProgram(KubeletOptions(options, settings, names), clock, announce=lambda _: None)
    await program.start()
    try:
        async with asyncio.timeout(_REGISTER_SECONDS):
            await program.wait_registered()
    except TimeoutError:
        await program.close()
        raise StartupError(f"node {names.one} did not register within {_REGISTER_SECONDS:g} s: see the log") from None
    if prepared is None:
        return RealNode(program, record, plan.is_ephemeral)
    try:
        network = await start_node_network(prepared, client, clock)
        port = await network.open_status_port(clock)
    except BaseException:
        await program.close()
        if plan.is_ephemeral:
            await remove_node_network(prepared.record)
        raise
    return RealNode(program, record, plan.is_ephemeral, network, port)


def _identity_of(plan: RealNodePlan, data: Path, record: NodeRecord) -> NodeIdentity:
    """Return what the network of the node needs to know of it."""
    folder = network_folder(data.absolute())
    return NodeIdentity(record.name, node_address(plan), record.endpoint, folder / "kubeconfig", folder)


def has_local_address(plan: RealNodePlan) -> bool:
    """Return True if the node's address is a loopback address: the API server dials those only if it is allowed to."""
    return ipaddress.ip_address(node_address(plan)).is_loopback


def check_node_address(plan: RealNodePlan) -> None:
    """Check that pods of the node's network can reach the node. Raises `StartupError`."""
    if plan.network is None:
        return
    address = ipaddress.ip_address(node_address(plan))
    if address.is_loopback:
        raise MissingRequirement(
            "pods cannot reach this machine: it has no default route, which tells the address of the node; set one "
            "with --kubelet-arg node-ip=ADDRESS"
        )
    for flag, cidrs in (
        ("--cluster-cidr", plan.network.cluster_cidr),
        ("--service-cluster-ip-range", plan.network.service_range),
    ):
        overlap = next((one for one in cidrs.split(",") if address in ipaddress.ip_network(one)), "")
        if overlap:
            raise MissingRequirement(f"the address of the node, {address}, is in {overlap}: choose another {flag}")


def node_address(plan: RealNodePlan) -> str:
    """Return the address of the node. Raises `StartupError` if the kubelet's configuration is invalid."""
    options = _kubelet_options(plan, Path())
    try:
        address = load_configuration(options).address
    except ValueError as error:
        raise StartupError(str(error)) from None
    return advertised_address(address, options.node_ip)


def _kubelet_options(plan: RealNodePlan, folder: Path) -> argparse.Namespace:
    """Return the flags of the kubelet: defaults below the cluster's folder, then those of the user."""
    parser = CommandParser(prog="kubeloop kubelet")
    add_flags(parser)
    folder = folder.absolute()
    logs = folder / "log" / "pods"
    usual = (
        *("--kubeconfig", str(folder / "kubeconfig"), "--bootstrap-kubeconfig", str(folder / "bootstrap.conf")),
        *("--container-runtime-endpoint", plan.endpoint, "--root-dir", str(folder), "--pod-logs-dir", str(logs)),
        *("--cert-dir", str(folder / "pki"), "--port", str(_free_port()), "--healthz-port", "0"),
        *("--client-ca-file", str(plan.client_ca)),
        *(("--cluster-dns", plan.network.dns_ip) if plan.network is not None else ()),
    )
    given = tuple(one if one.startswith("--") else f"--{one}" for one in plan.arguments)
    return parser.parse_args([*usual, *given])


def _free_port() -> int:
    """Return the kubelet's port, or 0 for any if another program listens there."""
    with socket.socket(socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", _KUBELET_PORT))
        except OSError:
            return 0
    return _KUBELET_PORT


async def _check_runtime(record: NodeRecord) -> None:
    """Check that the runtime answers and has no pods of another cluster: this kubelet would remove them."""
    try:
        connection = await connect_runtime(record.endpoint, _CALL_SECONDS)
        try:
            others = await foreign_pods(record, connection)
        finally:
            await connection.channel.close()
    except RpcError as error:
        raise StartupError(f"the container runtime at {record.endpoint} does not answer: {error.details}") from None
    if others:
        shown = ", ".join((*others[:_SHOWN_PODS], *(("…",) if len(others) > _SHOWN_PODS else ())))
        raise StartupError(
            f"the container runtime at {record.endpoint} has pods of another cluster ({shown}): a node needs a runtime "
            "of its own; delete that cluster, or its pods, first"
        )


def _write_kubeconfigs(options: argparse.Namespace, admin_kubeconfig: str) -> None:
    """Write the kubeconfig for the bootstrap, and the node's own again if it has one: the server's port may differ."""
    bootstrap: Path = options.bootstrap_kubeconfig
    write_private(bootstrap, admin_kubeconfig.encode())
    certificate: Path = options.cert_dir / CURRENT_CLIENT
    if certificate.is_file():
        own = kubeconfig_of(yaml.safe_load(admin_kubeconfig), bootstrap, certificate.absolute())
        write_private(options.kubeconfig, yaml.safe_dump(own).encode())


async def _allow_rotation(client: Client) -> None:
    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name="kubeloop:node-client-certificate-rotation"),
        role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=_ROTATION),
        subjects=(Subject(api_group="rbac.authorization.k8s.io", kind="Group", name="system:nodes"),),
    )
    try:
        await client.create(binding)
    except AlreadyExists:
        return
