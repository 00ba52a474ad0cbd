# SPDX-License-Identifier: Apache-2.0
"""Probes of real containers: exec, httpGet, tcpSocket and gRPC."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import Annotated, NamedTuple

from kubeloop.api.generated.core_v1 import Container, Probe
from kubeloop.grpc.hpack import block_of
from kubeloop.grpc.http2 import Http2Connection
from kubeloop.grpc.message import GrpcMessage, decode_message, encode_message
from kubeloop.grpc.streams import DEADLINE_EXCEEDED, UNIMPLEMENTED, RpcError
from kubeloop.kubelet.cri.lifecycle import http_action
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.kubelet.runtime import ProbeResult

_OUTPUT_BYTES = 10 << 10
_MOST_TRIES = 3  # of a probe that has an error instead of a result


class ProbeTarget(NamedTuple):
    """Container that is probed: its ID in the runtime, and the address of its pod."""

    container: Container
    id: str
    pod_ip: str


class Prober:
    """Runs probes, each within its timeout."""

    def __init__(self, runtime: RuntimeService) -> None:
        self._runtime = runtime

    async def probe(self, target: ProbeTarget, probe: Probe) -> ProbeResult:
        """Return the result of a probe; one that has an error is tried again at once."""
        for _ in range(_MOST_TRIES):
            if not (result := await self._try(target, probe)).is_error:
                break
        return result

    async def _try(self, target: ProbeTarget, probe: Probe) -> ProbeResult:
        seconds = probe.timeout_seconds or 1
        if probe.exec is not None:
            return await self._exec(target, tuple(probe.exec.command), seconds)
        try:
            async with asyncio.timeout(seconds):
                return await self._dial(target, probe)
        except TimeoutError:
            return ProbeResult(False, _timeout_message(target, probe, seconds))
        except http_action.HttpActionError as error:
            return ProbeResult(False, str(error), is_error=isinstance(error, http_action.UnknownPortError))

    async def _dial(self, target: ProbeTarget, probe: Probe) -> ProbeResult:
        if probe.http_get is not None:
            url = http_action.url_of(probe.http_get, target.container, target.pod_ip)
            return _http_result(await http_action.get(url, http_action.headers_of(probe.http_get, "probe")))
        if probe.tcp_socket is not None:
            port = http_action.resolve_port(probe.tcp_socket.port, target.container)
            return await _connect(probe.tcp_socket.host or target.pod_ip, port)
        if probe.grpc is not None:
            return await _check_health(target.pod_ip, probe.grpc.port, probe.grpc.service or "")
        return ProbeResult(False, f"missing probe handler for {target.container.name}", is_error=True)

    async def _exec(self, target: ProbeTarget, command: tuple[str, ...], seconds: int) -> ProbeResult:
        try:
            done = await self._runtime.exec_sync(target.id, command, seconds)
        except RpcError as error:
            if error.code == DEADLINE_EXCEEDED:
                words = " ".join(command)
                return ProbeResult(False, f"command timed out: {words} timed out after {seconds}s")
            return ProbeResult(False, error.format(), is_error=True)
        output = (done.stdout + done.stderr)[:_OUTPUT_BYTES].decode("utf-8", "replace")
        return ProbeResult(done.exit_code == 0, output)


def _http_result(response: http_action.ActionResponse) -> ProbeResult:
    body = response.body.decode("utf-8", "replace")
    if 200 <= response.status < 300:
        return ProbeResult(True, body)
    if 300 <= response.status < 400:
        return ProbeResult(True, f"Probe terminated redirects, Response body: {body}", is_warning=True)
    return ProbeResult(False, f"HTTP probe failed with statuscode: {response.status}")


async def _connect(host: str, port: int) -> ProbeResult:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return ProbeResult(False, http_action.dial_error(f"{host}:{port}", error))
    writer.transport.abort()
    return ProbeResult(True)


class _ServingStatus(IntEnum):
    UNKNOWN = 0
    SERVING = 1
    NOT_SERVING = 2
    SERVICE_UNKNOWN = 3


class _HealthCheckRequest(GrpcMessage, frozen=True, kw_only=True):
    service: Annotated[str, 1] = ""


class _HealthCheckResponse(GrpcMessage, frozen=True, kw_only=True):
    status: Annotated[_ServingStatus, 1] = _ServingStatus.UNKNOWN


async def _check_health(host: str, port: int, service: str) -> ProbeResult:
    """Call the health service of a gRPC server."""
    address = f"{host}:{port}"
    try:
        _, connection = await asyncio.get_running_loop().create_connection(Http2Connection, host, port)
    except OSError as error:
        said = f'failed to connect service at "{address}": {http_action.dial_error(address, error)}'
        return ProbeResult(False, f"error: {said}")
    request = encode_message(_HealthCheckRequest(service=service))
    try:
        answer = await connection.call_until_cancelled(_health_headers(address), request)
    except RpcError as error:
        if error.code == UNIMPLEMENTED:
            said = f"this server does not implement the grpc health protocol (grpc.health.v1.Health): {error.details}"
            return ProbeResult(False, f"error: {said}")
        return ProbeResult(False, f"error: health rpc probe failed: {error.format()}")
    finally:
        connection.close()
    status = decode_message(_HealthCheckResponse, answer).status
    if status == _ServingStatus.SERVING:
        return ProbeResult(True, "service healthy")
    name = status.name if isinstance(status, _ServingStatus) else str(status)
    return ProbeResult(False, f'service unhealthy (responded with "{name}")')


def _health_headers(authority: str) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": authority,
        "content-type": "application/grpc",
        "user-agent": "kube-probe",
        "te": "trailers",
    }
    return block_of(headers.items())


def _timeout_message(target: ProbeTarget, probe: Probe, seconds: int) -> str:
    if probe.http_get is not None:
        url = http_action.url_of(probe.http_get, target.container, target.pod_ip)
        return f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
    if probe.grpc is not None:
        return f"timeout: health rpc did not complete within {seconds}s"
    return f"dial tcp {target.pod_ip}: i/o timeout"
