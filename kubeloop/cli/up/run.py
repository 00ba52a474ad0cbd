# SPDX-License-Identifier: Apache-2.0
"""`kubeloop up`: a whole cluster in one process, in the foreground or, with `--detach`, in the background."""

from __future__ import annotations

import argparse
import errno
import ipaddress
import os
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeloop import __version__
from kubeloop.api.errors import AlreadyExists
from kubeloop.api.features.effects import APISERVER, CONTROLLER_MANAGER, KUBELET, SCHEDULER
from kubeloop.api.features.resource_config import APIResourceConfig
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.storage_v1 import StorageClass
from kubeloop.api.scalars.times import format_time
from kubeloop.apiserver.aggregator.lazy import AggregatorConfig
from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.registry.allocation import DEFAULT_RANGES, ServiceRanges
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.apiserver.request.fault_injection import FaultInjector
from kubeloop.apiserver.server import ApiServerConfig, RunningServer, StartupError, start_server
from kubeloop.cli.apiserver.kubelet_client import default_kubelet_config, serve_kubelet_metrics
from kubeloop.cli.apiserver.run import advertised_address, default_request_headers, with_shared_flags
from kubeloop.cli.flags.chaos import faults_of
from kubeloop.cli.flags.runtime_config import gates_of, resource_config_of
from kubeloop.cli.local_clusters.registry import (
    DEFAULT_NAME,
    ClusterError,
    ClusterLock,
    ClusterRecord,
    ClusterRegistry,
    KubeconfigEntry,
)
from kubeloop.cli.pki.files import KUBELET_CLIENT_USER, Pki, ensure_pki, serving_names
from kubeloop.cli.pki.kubeconfig import admin_kubeconfig, remove_context, server_url, write_kubeconfig
from kubeloop.cli.program.foreground import run_in_foreground
from kubeloop.cli.program.output import NAME, format_document
from kubeloop.cli.up.control_plane import RunningControlPlane
from kubeloop.cli.up.controllers import ClusterNetworks, start_controllers
from kubeloop.cli.up.detach import LOG_VARIABLE, run_detached
from kubeloop.cli.up.election import ElectedComponent
from kubeloop.cli.up.flags import (
    CLUSTER_CIDR,
    NO_CLOUD,
    NO_NETWORK,
    PORT,
    SERVICE_RANGE,
    CloudProviderFlags,
    NodeFlags,
)
from kubeloop.cli.up.scheduler import start_scheduler
from kubeloop.client import Client
from kubeloop.clock import Clock, SystemClock
from kubeloop.runtime.app import App
from kubeloop.runtime.manager import LoopManager
from kubeloop.store.sqlite.filelock import FileLock

if TYPE_CHECKING:
    from kubeloop.cli.up.node_network.plan import NodeNetworkPlan
    from kubeloop.cli.up.real_node import RealNode, RealNodePlan

_DEFAULT_CLASS: Final = "standard"
_DEFAULT_PROVISIONER: Final = "kubeloop.io/host-path"  # answered by the loop that binds volumes
_NODE_ARGUMENTS: Final = ("kubelet_arg", "network_arg", "proxy_arg", "dns_arg")  # for programs of the real node
_IS_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Resolved flags, with every default filled in."""

    name: str  # of the cluster and its context
    folder: Path
    store: str
    host: str
    port: int
    kubeconfig: Path
    switch_context: bool
    manager_port: int
    scheduler_port: int
    nodes: NodeFlags
    real_node: RealNodePlan | None
    networks: ClusterNetworks
    cloud: CloudProviderFlags
    default_class: bool
    serving: APIResourceConfig
    feature_gates: tuple[str, ...]
    faults: FaultInjector | None
    flags: argparse.Namespace  # those of the API server


def options_of(options: argparse.Namespace, folder: Path, name: str = DEFAULT_NAME) -> UpOptions:
    """Resolve the flags for a data folder."""
    backend = options.store or ("memory" if options.ephemeral else "sqlite")
    store = f"sqlite:{folder / 'store.db'}" if backend == "sqlite" else backend
    kubeconfig = options.kubeconfig or folder / "admin.conf"
    real_node = _real_node_plan(options, folder)
    has_network = real_node is not None and real_node.network is not None
    host = options.bind_address or _default_host(real_node)
    nodes = options.nodes if options.nodes is not None else int(real_node is None and not is_shared(store))
    return UpOptions(
        name,
        folder,
        store,
        host,
        options.port if options.port is not None else _default_port(host),
        kubeconfig,
        options.switch_context,
        options.controller_manager_port,
        options.scheduler_port,
        NodeFlags(
            nodes,
            options.node_events,
            options.node_stages,
            options.node_static_pods,
            options.kubelet_port,
            options.kubelet_metrics or real_node is not None,
            options.kubelet_allow_local_addresses,
        ),
        real_node,
        cluster_networks(options, has_network=has_network),
        CloudProviderFlags("" if options.cloud_provider == NO_CLOUD else options.cloud_provider, options.cloud_config),
        options.default_storage_class,
        resource_config_of(options, APISERVER, CONTROLLER_MANAGER, SCHEDULER, KUBELET),
        gates_of(options),
        faults_of(options),
        options,
    )


def _real_node_plan(options: argparse.Namespace, folder: Path) -> RealNodePlan | None:
    """Return the plan of the real node, if there is to be one. Raises `StartupError`."""
    if not options.runtime:
        given = [name for name in _NODE_ARGUMENTS if getattr(options, name)]
        if given:
            raise StartupError(f"{_flag_of(given[0])} requires --runtime")
        return None
    from kubeloop.cli.up.real_node import RealNodePlan, check_node_address, find_runtime

    endpoint = find_runtime(options.runtime)
    plan = RealNodePlan(
        endpoint, Pki(folder / "pki").ca, tuple(options.kubelet_arg), options.ephemeral, _network_plan(options)
    )
    check_node_address(plan)
    return plan


def _network_plan(options: argparse.Namespace) -> NodeNetworkPlan | None:
    """Return the plan of the real node's network, unless the host's is to be left alone. Raises `StartupError`."""
    if options.node_network == NO_NETWORK:
        given = [name for name in _NODE_ARGUMENTS[1:] if getattr(options, name)]
        if given:
            raise StartupError(f"{_flag_of(given[0])} excludes --node-network=none")
        return None
    from kubeloop.cli.up.node_network.plan import new_network_plan

    networks = cluster_networks(options, has_network=True)
    arguments = [tuple(getattr(options, name)) for name in _NODE_ARGUMENTS[1:]]
    return new_network_plan(networks.pods, networks.services, *arguments)


def _flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def cluster_networks(options: argparse.Namespace, *, has_network: bool) -> ClusterNetworks:
    """Return the networks of the flags; the defaults depend on whether there is a network for real pods."""
    pods, services = (CLUSTER_CIDR, SERVICE_RANGE) if has_network else ("", DEFAULT_RANGES.networks[0])
    return ClusterNetworks(
        ",".join(options.cluster_cidr or ()) or pods, ",".join(options.service_cluster_ip_range or ()) or services
    )


def _default_host(real_node: RealNodePlan | None) -> str:
    """Return the address to listen on: of loopback, unless pods with a network are to reach the server."""
    if real_node is None or real_node.network is None:
        return "127.0.0.1"
    from kubeloop.cli.up.real_node import node_address

    return "::" if ":" in node_address(real_node) else "0.0.0.0"


def _advertised_address(plan: UpOptions) -> str:
    """Return the address that pods reach the server at."""
    if plan.real_node is None or plan.real_node.network is None or not ipaddress.ip_address(plan.host).is_unspecified:
        return advertised_address(plan.host)
    from kubeloop.cli.up.real_node import node_address

    return node_address(plan.real_node)


def is_shared(store: str) -> bool:
    """Return True if several processes may use the store."""
    return store.startswith("etcd://")


def _default_port(host: str) -> int:
    """Return the usual port, or 0 for any free one if another program listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, PORT))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return PORT
            print(f"kubeloop: port {PORT} is in use, so another one is chosen", file=sys.stderr)
            return 0
    return PORT


def run_up(options: argparse.Namespace) -> int:
    """Run the cluster; returns the exit code."""
    registry = ClusterRegistry()
    name = options.name or ("" if options.ephemeral or options.data_dir else DEFAULT_NAME)
    if options.detach:
        return run_detached(registry, name, options.arguments, options.output)
    with ExitStack() as cleanup:
        try:
            lock = _claim(registry, name)
        except ClusterError as error:
            print(f"kubeloop: {error}", file=sys.stderr)
            return 1
        if lock is not None:
            cleanup.callback(lock.release)

        async def start() -> RunningControlPlane:
            name = lock.name if lock is not None else DEFAULT_NAME
            folder = _data_folder(options, registry.data_dir(name), cleanup)
            plan = options_of(options, folder, name)
            if options.kubeconfig is not None:
                _remember_context(registry, plan, options, cleanup)
            return await _start(plan, lock)

        code = _run_with_status(start, options)
        if options.ephemeral and LOG_VARIABLE in os.environ and not code:  # after a failure, the log tells why
            Path(os.environ[LOG_VARIABLE]).unlink(missing_ok=True)
        return code


def _run_with_status(start: Callable[[], Awaitable[RunningControlPlane]], options: argparse.Namespace) -> int:
    """Run the cluster, on a terminal with a status line; after Ctrl-C a summary is printed."""
    started: list[RunningControlPlane] = []
    summary: list[str] = []
    with ExitStack() as cleanup:
        show = _status_line(options, cleanup)

        async def start_and_show() -> RunningControlPlane:
            plane = await start()
            started.append(plane)
            show(plane)
            return plane

        def summarize() -> None:
            from kubeloop.cli.up.summary import summary_of

            summary.append(summary_of(started[0], options))

        code = run_in_foreground(
            start_and_show, logging_format=options.logging_format, verbosity=options.v, on_interrupt=summarize
        )
    if summary and not options.output:
        print(summary[0])
    return code or int(any(plane.real_node is not None and plane.real_node.has_failed for plane in started))


def _status_line(options: argparse.Namespace, cleanup: ExitStack) -> Callable[[RunningControlPlane], None]:
    """Open the status line if a person may look at it; returns the function that shows it for a control plane."""
    if options.output or not sys.stderr.isatty():
        return lambda _: None
    from kubeloop.cli.up.status_line import open_status_line

    return open_status_line(os.environ, cleanup)


def _claim(registry: ClusterRegistry, name: str) -> ClusterLock | None:
    """Claim a name; None where no record can be kept, as on a read-only file system."""
    try:
        return registry.claim(name)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        return None


def _remember_context(
    registry: ClusterRegistry, plan: UpOptions, options: argparse.Namespace, cleanup: ExitStack
) -> None:
    """Arrange for the removal of the context: at the end of an ephemeral cluster, otherwise with its data."""
    if options.ephemeral:
        cleanup.callback(remove_context, plan.kubeconfig, plan.name)
    elif options.data_dir is None:
        registry.save_kubeconfig_entry(plan.name, KubeconfigEntry(str(plan.kubeconfig.absolute()), plan.name))


def _data_folder(options: argparse.Namespace, default: Path, cleanup: ExitStack) -> Path:
    """Create and lock the data folder."""
    if options.ephemeral:
        return Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="kubeloop-")))
    folder = (options.data_dir or default).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(str(folder / "lock"))
    lock.acquire(str(folder))
    cleanup.callback(lock.release)
    return folder


async def _start(plan: UpOptions, lock: ClusterLock | None) -> RunningControlPlane:
    clock = SystemClock()
    config = ApiServerConfig(
        store=plan.store,
        host=plan.host,
        port=plan.port,
        advertise_address=_advertised_address(plan),
        service_ranges=ServiceRanges(tuple(plan.networks.services.split(","))),
        resource_config=plan.serving,
        fault_injector=plan.faults,
    )
    addresses = (plan.host, config.advertise_address)
    names = serving_names(addresses, config.service_ranges.networks[0], socket.gethostname())
    pki = ensure_pki(plan.folder / "pki", names, clock.now())
    async with AsyncExitStack() as parts:

        def write_access(server: RunningServer) -> None:
            url = server_url(plan.host, server.port)
            text = admin_kubeconfig(pki, pki.ca, url, plan.name)
            write_kubeconfig(plan.kubeconfig, text, switch=plan.switch_context)

        config = replace(config, kubelet_client=default_kubelet_config(pki, _allows_local_addresses(plan)))
        server = await start_server(_with_keys(config, plan.flags, pki, clock), clock, write_access)
        parts.push_async_callback(server.close)
        if plan.default_class:
            await ensure_default_class(server.app)
        loops = await start_controllers(server.app, pki, clock, plan.manager_port, plan.feature_gates, plan.networks)
        parts.push_async_callback(loops.close)
        scheduler = await start_scheduler(server.app, pki, clock, plan.scheduler_port, plan.feature_gates)
        parts.push_async_callback(scheduler.close)
        nodes = await _start_nodes(plan, server, pki, clock, parts)
        cloud = _start_cloud(plan, server.app, clock, parts)
        real = await _start_real_node(plan, server, pki, clock)
        if real is not None:
            parts.push_async_callback(real.close)
        ports = {"controller-manager": loops.port, "scheduler": scheduler.port}
        record = _record_of(plan, server_url(plan.host, server.port), format_time(clock.now()), ports)
        if real is not None:
            record = real.add_to(record)
        if lock is not None:
            lock.publish(record)
        print(_ready_text(record, plan.flags.output), flush=True)
        components = [one for one in (loops.part, scheduler.component, cloud) if one is not None]
        managers: list[Callable[[], LoopManager]] = [*(partial(_manager_of, one) for one in components), *nodes]
        return RunningControlPlane(parts.pop_all(), record, server.app, lambda: loops.part.app, managers, real)


def _manager_of(component: ElectedComponent[Any]) -> LoopManager:
    """Return the manager of a component's current app."""
    app: App = component.app
    return app.manager


def _ready_text(record: ClusterRecord, output: str) -> str:
    """Return what is printed when the cluster serves; in the background a line for the log."""
    if output and not record.log:
        return record.name if output == NAME else format_document(record, output)
    return f"kubeloop {__version__} is ready at {record.server}: export KUBECONFIG={record.kubeconfig}"


def _record_of(plan: UpOptions, server: str, started: str, ports: Mapping[str, int]) -> ClusterRecord:
    return ClusterRecord(
        name=plan.name,
        pid=os.getpid(),
        version=__version__,
        started=started,
        server=server,
        kubeconfig=str(plan.kubeconfig.absolute()),
        data_dir="" if plan.flags.ephemeral else str(plan.folder),
        log=os.environ.get(LOG_VARIABLE, ""),
        ports={name: port for name, port in ports.items() if port},
    )


async def _start_nodes(
    plan: UpOptions, server: RunningServer, pki: Pki, clock: Clock, parts: AsyncExitStack
) -> Sequence[Callable[[], LoopManager]]:
    """Start the simulated nodes. Without any, those that `kubeloop node add` creates later are served all the same.

    Not so if the store may be shared: another process serves them. Returns the manager of their loops, if there is one.
    """
    if not plan.nodes.count and is_shared(plan.store):
        if plan.nodes.kubelet_metrics:
            serve_kubelet_metrics(server, clock)
        return ()
    from kubeloop.cli.up.nodes import fleet_config, start_nodes

    host = plan.host if plan.nodes.kubelet_port else ""
    config = fleet_config(plan.nodes, clock, host, plan.networks.pods)
    nodes = await start_nodes(server.app, clock, config, pki)
    parts.push_async_callback(nodes.close)
    if plan.nodes.count or plan.nodes.kubelet_metrics:
        serve_kubelet_metrics(server, clock, nodes.fleet.metrics)
    return (lambda: nodes.manager,)


def _allows_local_addresses(plan: UpOptions) -> bool:
    """Return True if kubelets at loopback addresses may be dialled: where asked for, and if the real node is there."""
    if plan.real_node is None or plan.nodes.kubelet_allow_local_addresses:
        return plan.nodes.kubelet_allow_local_addresses
    from kubeloop.cli.up.real_node import has_local_address

    return has_local_address(plan.real_node)


async def _start_real_node(plan: UpOptions, server: RunningServer, pki: Pki, clock: Clock) -> RealNode | None:
    if plan.real_node is None:
        return None
    from kubeloop.cli.up.real_node import start_real_node

    access = admin_kubeconfig(pki, pki.ca, server_url(plan.host, server.port), plan.name)
    return await start_real_node(plan.real_node, plan.folder, access, _admin_client(server.app), clock)


def _start_cloud(
    plan: UpOptions, server: ApiServer, clock: Clock, parts: AsyncExitStack
) -> ElectedComponent[App] | None:
    if not plan.cloud.provider:
        return None
    from kubeloop.cli.up.cloud import start_cloud

    cloud = start_cloud(server, clock, plan.cloud.provider, plan.cloud.config_file)
    parts.push_async_callback(cloud.close)
    return cloud


def _with_keys(config: ApiServerConfig, flags: argparse.Namespace, pki: Pki, clock: Clock) -> ApiServerConfig:
    return replace(
        with_shared_flags(config, flags, pki, clock),
        certificate=pki.serving_certificate,
        key=pki.serving_key,
        client_authorities=(pki.ca,),
        front_proxy=default_request_headers(pki),
        aggregator=AggregatorConfig(pki.front_proxy_certificate, pki.front_proxy_key),
        kubelet_client_user=KUBELET_CLIENT_USER,
    )


def _admin_client(server: ApiServer) -> Client:
    user = User("system:kubeloop", ("system:masters", AUTHENTICATED))
    return Client(InProcessTransport(server, user), user_agent="kubeloop")


async def ensure_default_class(server: ApiServer) -> None:
    """Create the default StorageClass, directories on the nodes, unless one of that name exists."""
    made = StorageClass(
        metadata=ObjectMeta(name=_DEFAULT_CLASS, annotations={_IS_DEFAULT_CLASS: "true"}),
        provisioner=_DEFAULT_PROVISIONER,
        reclaim_policy="Delete",
        volume_binding_mode="Immediate",
        allow_volume_expansion=True,
    )
    try:
        await _admin_client(server).create(made)
    except AlreadyExists:
        return
