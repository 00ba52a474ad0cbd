# SPDX-License-Identifier: Apache-2.0
"""DRA driver by the real gRPC library: registers itself, prepares claims, and reports the health of its devices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from kubeloop.grpc.message import decode_message, encode_message
from kubeloop.kubelet.cm.dra.messages import (
    DRAClaim,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
    NodeWatchResourcesResponse,
    PreparedDevice,
)
from kubeloop.kubelet.pluginmanager.messages import PluginInfo, RegistrationStatus, RegistrationStatusResponse

V1 = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
V1BETA1 = "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin"


class DRADriver:
    """Driver with one device per claim. `failures` by the name of a claim; `calls` in their order."""

    def __init__(
        self,
        name: str,
        folder: Path,
        versions: tuple[str, ...] = ("v1.DRAPlugin",),
        *,
        service: str = V1,
        endpoint: str = "dra.sock",
        registration: str = "reg.sock",
        kind: str = "DRAPlugin",
    ) -> None:
        self.name, self.folder, self.versions, self.kind = name, folder, versions, kind
        self.socket, self.registration = folder / endpoint, folder / "plugins_registry" / registration
        self.failures: dict[str, str] = {}
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.statuses: list[RegistrationStatus] = []
        self.prepared: dict[str, DRAClaim] = {}  # by UID
        self.health: asyncio.Queue[NodeWatchResourcesResponse] = asyncio.Queue()
        self._service = service
        self._servers: list[grpc.aio.Server] = []

    async def start(self) -> None:
        """Serve the driver, and then its registration."""
        self.registration.parent.mkdir(parents=True, exist_ok=True)
        calls = {"NodePrepareResources": self._prepare, "NodeUnprepareResources": self._unprepare}
        self._servers.append(await _serve(self.socket, self._service, calls, self._watch))
        await self.start_registration()

    async def start_registration(self) -> None:
        """Serve the registration alone."""
        calls = {"GetInfo": self._get_info, "NotifyRegistrationStatus": self._notify}
        self._servers.append(await _serve(self.registration, "pluginregistration.Registration", calls))

    async def stop_registration(self) -> None:
        """Remove the registration socket."""
        await self._servers.pop().stop(None)
        self.registration.unlink(missing_ok=True)

    async def stop(self) -> None:
        """Stop all servers."""
        for server in reversed(self._servers):
            await server.stop(None)
        self._servers.clear()
        self.registration.unlink(missing_ok=True)

    async def _get_info(self, request: bytes, context: Any) -> bytes:
        info = PluginInfo(type=self.kind, name=self.name, endpoint=str(self.socket), supported_versions=self.versions)
        return encode_message(info)

    async def _notify(self, request: bytes, context: Any) -> bytes:
        self.statuses.append(decode_message(RegistrationStatus, request))
        return encode_message(RegistrationStatusResponse())

    async def _prepare(self, request: bytes, context: Any) -> bytes:
        claims = decode_message(NodePrepareResourcesRequest, request).claims
        self.calls.append(("prepare", tuple(one.name for one in claims)))
        answers = {one.uid: self._prepare_one(one) for one in claims}
        return encode_message(NodePrepareResourcesResponse(claims=answers))

    def _prepare_one(self, claim: DRAClaim) -> NodePrepareResourceResponse:
        if claim.name in self.failures:
            return NodePrepareResourceResponse(error=self.failures[claim.name])
        self.prepared[claim.uid] = claim
        id = f"{self.name}/device={claim.name}"
        device = PreparedDevice(request_names=("req",), pool_name="pool", device_name="d0", cdi_device_ids=(id,))
        return NodePrepareResourceResponse(devices=(device,))

    async def _unprepare(self, request: bytes, context: Any) -> bytes:
        claims = decode_message(NodeUnprepareResourcesRequest, request).claims
        self.calls.append(("unprepare", tuple(one.name for one in claims)))
        answers = {}
        for one in claims:
            error = self.failures.get(one.name, "")
            answers[one.uid] = NodeUnprepareResourceResponse(error=error)
            if not error:
                self.prepared.pop(one.uid, None)
        return encode_message(NodeUnprepareResourcesResponse(claims=answers))

    async def _watch(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        while True:
            yield encode_message(await self.health.get())


async def _serve(path: Path, service: str, calls: dict[str, Any], watch: Any = None) -> grpc.aio.Server:
    server = grpc.aio.server()
    handlers = {name: grpc.unary_unary_rpc_method_handler(call) for name, call in calls.items()}
    generic = [grpc.method_handlers_generic_handler(service, handlers)]
    if watch is not None:
        streams = {"NodeWatchResources": grpc.unary_stream_rpc_method_handler(watch)}
        generic.append(grpc.method_handlers_generic_handler("v1.DRAResourceHealth", streams))
    server.add_generic_rpc_handlers(tuple(generic))
    server.add_insecure_port(f"unix://{path}")
    await server.start()
    return server
