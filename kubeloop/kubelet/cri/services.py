# SPDX-License-Identifier: Apache-2.0
"""Clients of CRI's two services, with a time limit for every call. All calls raise `RpcError`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.message import GrpcMessage, M
from kubeloop.kubelet.cri.messages import container as ct
from kubeloop.kubelet.cri.messages import image as im
from kubeloop.kubelet.cri.messages import runtime as rt
from kubeloop.kubelet.cri.messages import sandbox as sb
from kubeloop.kubelet.cri.messages import stats as st
from kubeloop.kubelet.cri.messages import streaming as stream
from kubeloop.kubelet.cri.messages.resources import LinuxContainerResources

_RUNTIME = "/runtime.v1.RuntimeService"
_IMAGES = "/runtime.v1.ImageService"
# A pull has no limit of its own: the runtime ends pulls without progress. This one only bounds a hung runtime.
_PULL_SECONDS = 3600.0


class _CriService:
    """Calls to one service at a socket."""

    def __init__(self, channel: UnixChannel, name: str, seconds: float) -> None:
        self._channel = channel
        self._name = name
        self._seconds = seconds

    async def _call(self, method: str, request: GrpcMessage, response: type[M], seconds: float | None = None) -> M:
        limit = self._seconds if seconds is None else seconds
        return await self._channel.invoke(f"{self._name}/{method}", request, response, limit)


class RuntimeService(_CriService):
    """Sandboxes, containers, commands and statistics. `seconds` is the kubelet's `--runtime-request-timeout`."""

    def __init__(self, channel: UnixChannel, seconds: float) -> None:
        super().__init__(channel, _RUNTIME, seconds)

    async def version(self) -> rt.VersionResponse:
        """Return the runtime's name and versions."""
        return await self._call("Version", rt.VersionRequest(version="v1"), rt.VersionResponse)

    async def status(self, *, verbose: bool = False) -> rt.StatusResponse:
        """Return the runtime's conditions, handlers and features."""
        return await self._call("Status", rt.StatusRequest(verbose=verbose), rt.StatusResponse)

    async def runtime_config(self) -> rt.RuntimeConfigResponse:
        """Return the runtime's cgroup driver; unimplemented by containerd before 2.0."""
        return await self._call("RuntimeConfig", rt.RuntimeConfigRequest(), rt.RuntimeConfigResponse)

    async def update_runtime_config(self, pod_cidr: str) -> None:
        """Pass the node's pod CIDR to the runtime."""
        config = rt.RuntimeConfig(network_config=rt.NetworkConfig(pod_cidr=pod_cidr))
        request = rt.UpdateRuntimeConfigRequest(runtime_config=config)
        await self._call("UpdateRuntimeConfig", request, rt.UpdateRuntimeConfigResponse)

    # Sandboxes.

    async def run_pod_sandbox(self, config: sb.PodSandboxConfig, handler: str) -> str:
        """Create and start a sandbox; returns its ID."""
        request = sb.RunPodSandboxRequest(config=config, runtime_handler=handler)
        made = await self._call("RunPodSandbox", request, sb.RunPodSandboxResponse, 2 * self._seconds)
        return made.pod_sandbox_id

    async def stop_pod_sandbox(self, id: str) -> None:
        """Stop a sandbox and its containers, and release its network; may be repeated."""
        await self._call("StopPodSandbox", sb.StopPodSandboxRequest(pod_sandbox_id=id), sb.StopPodSandboxResponse)

    async def remove_pod_sandbox(self, id: str) -> None:
        """Remove a sandbox and its containers."""
        await self._call("RemovePodSandbox", sb.RemovePodSandboxRequest(pod_sandbox_id=id), sb.RemovePodSandboxResponse)

    async def pod_sandbox_status(self, id: str, *, verbose: bool = False) -> sb.PodSandboxStatusResponse:
        """Return the state of a sandbox, verbose with the runtime's own information."""
        request = sb.PodSandboxStatusRequest(pod_sandbox_id=id, verbose=verbose)
        return await self._call("PodSandboxStatus", request, sb.PodSandboxStatusResponse)

    async def list_pod_sandboxes(self, labels: Mapping[str, str]) -> tuple[sb.PodSandbox, ...]:
        """Return the sandboxes with these labels."""
        request = sb.ListPodSandboxRequest(filter=sb.PodSandboxFilter(label_selector=labels))
        return (await self._call("ListPodSandbox", request, sb.ListPodSandboxResponse)).items

    async def update_pod_sandbox_resources(self, request: sb.UpdatePodSandboxResourcesRequest) -> None:
        """Change the resources of a sandbox; unimplemented by older runtimes."""
        await self._call("UpdatePodSandboxResources", request, sb.UpdatePodSandboxResourcesResponse)

    # Containers.

    async def create_container(self, request: ct.CreateContainerRequest) -> str:
        """Create a container in a sandbox; returns its ID."""
        return (await self._call("CreateContainer", request, ct.CreateContainerResponse)).container_id

    async def start_container(self, id: str) -> None:
        """Start a created container."""
        await self._call("StartContainer", ct.StartContainerRequest(container_id=id), ct.StartContainerResponse)

    async def stop_container(self, id: str, grace: int) -> None:
        """Stop a container: its stop signal, and SIGKILL after the grace period in seconds."""
        request = ct.StopContainerRequest(container_id=id, timeout=grace)
        await self._call("StopContainer", request, ct.StopContainerResponse, self._seconds + grace)

    async def remove_container(self, id: str) -> None:
        """Remove a container; a running one is killed."""
        await self._call("RemoveContainer", ct.RemoveContainerRequest(container_id=id), ct.RemoveContainerResponse)

    async def list_containers(self, labels: Mapping[str, str], sandbox: str = "") -> tuple[ct.Container, ...]:
        """Return the containers with these labels, of one sandbox if it is given."""
        chosen = ct.ContainerFilter(label_selector=labels, pod_sandbox_id=sandbox)
        request = ct.ListContainersRequest(filter=chosen)
        return (await self._call("ListContainers", request, ct.ListContainersResponse)).containers

    async def container_status(self, id: str, *, verbose: bool = False) -> ct.ContainerStatusResponse:
        """Return the state of a container."""
        request = ct.ContainerStatusRequest(container_id=id, verbose=verbose)
        return await self._call("ContainerStatus", request, ct.ContainerStatusResponse)

    async def update_container_resources(self, id: str, resources: LinuxContainerResources) -> None:
        """Change the limits of a container."""
        request = ct.UpdateContainerResourcesRequest(container_id=id, linux=resources)
        await self._call("UpdateContainerResources", request, ct.UpdateContainerResourcesResponse)

    async def reopen_container_log(self, id: str) -> None:
        """Open the log of a container again, after its file was renamed."""
        request = ct.ReopenContainerLogRequest(container_id=id)
        await self._call("ReopenContainerLog", request, ct.ReopenContainerLogResponse)

    async def checkpoint_container(self, id: str, location: str, seconds: int) -> None:
        """Write a checkpoint of a container to a file, within these seconds or the limit of other calls."""
        limit = max(seconds, int(self._seconds))
        request = ct.CheckpointContainerRequest(container_id=id, location=location, timeout=limit)
        await self._call("CheckpointContainer", request, ct.CheckpointContainerResponse, limit)

    # Commands.

    async def exec_sync(self, id: str, command: tuple[str, ...], seconds: int) -> stream.ExecSyncResponse:
        """Run a command in a container within a time limit; returns its output and exit code."""
        request = stream.ExecSyncRequest(container_id=id, cmd=command, timeout=seconds)
        limit = self._seconds + seconds
        return await self._call("ExecSync", request, stream.ExecSyncResponse, limit)

    async def exec(self, request: stream.ExecRequest) -> str:
        """Return the URL of the runtime's streaming server for a command."""
        return (await self._call("Exec", request, stream.ExecResponse)).url

    async def attach(self, request: stream.AttachRequest) -> str:
        """Return the URL of the runtime's streaming server for the streams of a container."""
        return (await self._call("Attach", request, stream.AttachResponse)).url

    async def port_forward(self, sandbox: str, ports: tuple[int, ...]) -> str:
        """Return the URL of the runtime's streaming server for ports of a sandbox."""
        request = stream.PortForwardRequest(pod_sandbox_id=sandbox, port=ports)
        return (await self._call("PortForward", request, stream.PortForwardResponse)).url

    # Statistics and events.

    async def list_container_stats(self) -> tuple[st.ContainerStats, ...]:
        """Return the statistics of all running containers."""
        response = await self._call("ListContainerStats", st.ListContainerStatsRequest(), st.ListContainerStatsResponse)
        return response.stats

    async def list_pod_sandbox_stats(self) -> tuple[st.PodSandboxStats, ...]:
        """Return the statistics of all sandboxes; unimplemented by older runtimes."""
        request = st.ListPodSandboxStatsRequest()
        return (await self._call("ListPodSandboxStats", request, st.ListPodSandboxStatsResponse)).stats

    async def pod_sandbox_stats(self, id: str) -> st.PodSandboxStats | None:
        """Return the statistics of a sandbox."""
        request = st.PodSandboxStatsRequest(pod_sandbox_id=id)
        return (await self._call("PodSandboxStats", request, st.PodSandboxStatsResponse)).stats

    def container_events(self) -> AsyncGenerator[rt.ContainerEventResponse, None]:
        """Yield the events of containers; unimplemented by containerd before 1.7."""
        return self._channel.stream(f"{_RUNTIME}/GetContainerEvents", rt.GetEventsRequest(), rt.ContainerEventResponse)


class ImageService(_CriService):
    """Images of the runtime."""

    def __init__(self, channel: UnixChannel, seconds: float) -> None:
        super().__init__(channel, _IMAGES, seconds)

    async def list_images(self) -> tuple[im.Image, ...]:
        """Return all images."""
        return (await self._call("ListImages", im.ListImagesRequest(), im.ListImagesResponse)).images

    async def image_status(self, spec: im.ImageSpec) -> im.Image | None:
        """Return an image, or None if it is not present."""
        return (await self._call("ImageStatus", im.ImageStatusRequest(image=spec), im.ImageStatusResponse)).image

    async def pull_image(self, request: im.PullImageRequest) -> str:
        """Pull an image; returns its reference."""
        return (await self._call("PullImage", request, im.PullImageResponse, _PULL_SECONDS)).image_ref

    async def remove_image(self, spec: im.ImageSpec) -> None:
        """Remove an image."""
        await self._call("RemoveImage", im.RemoveImageRequest(image=spec), im.RemoveImageResponse)

    async def image_fs_info(self) -> st.ImageFsInfoResponse:
        """Return the usage of the file systems of images and containers."""
        return await self._call("ImageFsInfo", st.ImageFsInfoRequest(), st.ImageFsInfoResponse)
