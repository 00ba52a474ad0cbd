"""`kubeloop up`: the whole control plane in one process, in the foreground."""

from __future__ import annotations

import argparse
import socket
import tempfile
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kubeloop import __version__
from kubeloop.api.errors import AlreadyExists
from kubeloop.api.features.effects import HONORED
from kubeloop.api.features.resource_config import APIResourceConfig
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.storage_v1 import StorageClass
from kubeloop.apiserver.aggregator.lazy import AggregatorConfig
from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.apiserver.request.fault_injection import FaultInjector
from kubeloop.apiserver.server import ApiServerConfig, RunningServer, start_server
from kubeloop.cli.apiserver.kubelet_client import default_kubelet_config, serve_kubelet_metrics, set_kubelet_client
from kubeloop.cli.apiserver.run import advertised_address, default_request_headers, with_shared_flags
from kubeloop.cli.flags.chaos import faults_of
from kubeloop.cli.flags.runtime_config import gates_of, resource_config_of
from kubeloop.cli.pki.files import KUBELET_CLIENT_USER, Pki, ensure_pki, serving_names
from kubeloop.cli.pki.kubeconfig import admin_kubeconfig, server_url, write_kubeconfig
from kubeloop.cli.program.foreground import run_in_foreground
from kubeloop.cli.up.controllers import start_controllers
from kubeloop.cli.up.flags import CloudProviderFlags, NodeFlags, default_data_dir
from kubeloop.cli.up.scheduler import start_scheduler
from kubeloop.client import Client
from kubeloop.clock import Clock, SystemClock
from kubeloop.store.sqlite.filelock import FileLock

_DEFAULT_CLASS: Final = "standard"
_DEFAULT_PROVISIONER: Final = "kubeloop.io/host-path"  # answered by the loop that binds volumes
_IS_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Resolved flags, with every default filled in."""

    folder: Path
    store: str
    host: str
    port: int
    kubeconfig: Path
    manager_port: int
    scheduler_port: int
    nodes: NodeFlags
    cloud: CloudProviderFlags
    default_class: bool
    serving: APIResourceConfig
    feature_gates: tuple[str, ...]
    faults: FaultInjector | None
    flags: argparse.Namespace  # those of the API server


class RunningControlPlane:
    """All started components; stopped in reverse order."""

    def __init__(self, parts: AsyncExitStack) -> None:
        self._parts = parts

    async def close(self) -> None:
        """Stop all components."""
        await self._parts.aclose()


def options_of(options: argparse.Namespace, folder: Path) -> UpOptions:
    """Build the plan for a data folder."""
    backend = options.store or ("memory" if options.ephemeral else "sqlite")
    store = f"sqlite:{folder / 'store.db'}" if backend == "sqlite" else backend
    kubeconfig = options.kubeconfig or folder / "admin.conf"
    return UpOptions(
        folder,
        store,
        options.bind_address,
        options.port,
        kubeconfig,
        options.controller_manager_port,
        options.scheduler_port,
        NodeFlags(
            options.nodes,
            options.node_events,
            options.node_stages,
            options.node_static_pods,
            options.kubelet_port,
            options.kubelet_metrics,
            options.kubelet_allow_local_addresses,
        ),
        CloudProviderFlags(options.cloud_provider, options.cloud_config),
        options.default_storage_class,
        resource_config_of(options, *HONORED),
        gates_of(options),
        faults_of(options),
        options,
    )


def run_up(options: argparse.Namespace) -> int:
    """Run the control plane; returns the exit code."""
    with ExitStack() as cleanup:

        async def start() -> RunningControlPlane:
            folder = _data_folder(options, cleanup)
            return await _start(options_of(options, folder))

        return run_in_foreground(start)


def _data_folder(options: argparse.Namespace, cleanup: ExitStack) -> Path:
    """Create and lock the data folder."""
    if options.ephemeral:
        return Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="kubeloop-")))
    folder = (options.data_dir or default_data_dir()).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(str(folder / "lock"))
    lock.acquire(str(folder))
    cleanup.callback(lock.release)
    return folder


async def _start(plan: UpOptions) -> RunningControlPlane:
    clock = SystemClock()
    config = ApiServerConfig(
        store=plan.store,
        host=plan.host,
        port=plan.port,
        advertise_address=advertised_address(plan.host),
        resource_config=plan.serving,
        fault_injector=plan.faults,
    )
    addresses = (plan.host, config.advertise_address)
    names = serving_names(addresses, config.service_ranges.networks[0], socket.gethostname())
    pki = ensure_pki(plan.folder / "pki", names, clock.now())
    async with AsyncExitStack() as parts:

        def write_access(server: RunningServer) -> None:
            url = server_url(plan.host, server.port)
            write_kubeconfig(plan.kubeconfig, admin_kubeconfig(pki, pki.ca, url))

        server = await start_server(_with_keys(config, plan.flags, pki, clock), clock, write_access)
        parts.push_async_callback(server.close)
        set_kubelet_client(server.app, default_kubelet_config(pki, plan.nodes.kubelet_allow_local_addresses))
        if plan.default_class:
            await ensure_default_class(server.app)
        loops = await start_controllers(server.app, pki, clock, plan.manager_port, plan.feature_gates)
        parts.push_async_callback(loops.close)
        scheduler = await start_scheduler(server.app, pki, clock, plan.scheduler_port)
        parts.push_async_callback(scheduler.close)
        await _start_nodes(plan, server, pki, clock, parts)
        _start_cloud(plan, server.app, clock, parts)
        url = server_url(plan.host, server.port)
        kubeconfig = plan.kubeconfig.absolute()
        print(f"kubeloop {__version__} is ready at {url}: export KUBECONFIG={kubeconfig}", flush=True)
        return RunningControlPlane(parts.pop_all())


async def _start_nodes(plan: UpOptions, server: RunningServer, pki: Pki, clock: Clock, parts: AsyncExitStack) -> None:
    if plan.nodes.kubelet_metrics and not plan.nodes.count:
        serve_kubelet_metrics(server, clock)
    if plan.nodes.count:
        from kubeloop.cli.up.nodes import fleet_config, start_nodes

        host = plan.host if plan.nodes.kubelet_port else ""
        nodes = await start_nodes(server.app, clock, fleet_config(plan.nodes, clock, host), pki)
        parts.push_async_callback(nodes.close)
        serve_kubelet_metrics(server, clock, nodes.fleet.metrics)


def _start_cloud(plan: UpOptions, server: ApiServer, clock: Clock, parts: AsyncExitStack) -> None:
    if plan.cloud.provider:
        from kubeloop.cli.up.cloud import start_cloud

        cloud = start_cloud(server, clock, plan.cloud.provider, plan.cloud.config_file)
        parts.push_async_callback(cloud.close)


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


async def ensure_default_class(server: ApiServer) -> None:
    """Create the default StorageClass, directories on the nodes, unless one of that name exists."""
    client = Client(
        InProcessTransport(server, User("system:kubeloop", ("system:masters", AUTHENTICATED))), user_agent="kubeloop"
    )
    made = StorageClass(
        metadata=ObjectMeta(name=_DEFAULT_CLASS, annotations={_IS_DEFAULT_CLASS: "true"}),
        provisioner=_DEFAULT_PROVISIONER,
        reclaim_policy="Delete",
        volume_binding_mode="Immediate",
        allow_volume_expansion=True,
    )
    try:
        await client.create(made)
    except AlreadyExists:
        return
