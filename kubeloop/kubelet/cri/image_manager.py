# SPDX-License-Identifier: Apache-2.0
"""Image manager: provides the image of a container by its pull policy, with the pull secrets of the pod."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import NamedTuple, Protocol

import msgspec

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Container, Pod, Secret
from kubeloop.client import Client
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.config.security_context import ImageUser
from kubeloop.kubelet.cri.messages.image import AuthConfig, Image, ImageSpec, PullImageRequest
from kubeloop.kubelet.cri.messages.sandbox import PodSandboxConfig
from kubeloop.kubelet.cri.services import ImageService
from kubeloop.kubelet.runtime import ContainerStartError

_DEFAULT_REGISTRY = "docker.io"
_DOCKER_HUB = "index.docker.io"  # key of credentials of the default registry
_UNLIMITED = 1 << 30
_SECRET_KEYS = (".dockerconfigjson", ".dockercfg")


class PulledImage(NamedTuple):
    """Image that is present."""

    ref: str
    user: ImageUser


class PullEvents(Protocol):
    """Events of image pulls."""

    def record_image_pulling(self, pod: Pod, container: Container) -> None:
        """Emit Pulling."""

    def record_image_pulled(self, pod: Pod, container: Container, size: int | None, seconds: float) -> None:
        """Emit Pulled; the size is None for an image that was already present."""


class ImageManager:
    """Ensures images, at most `parallel` pulls at a time; 0 for any number."""

    def __init__(self, images: ImageService, client: Client, events: PullEvents, parallel: int) -> None:
        self._images = images
        self._client = client
        self._events = events
        self._pulls = asyncio.Semaphore(parallel or _UNLIMITED)

    async def ensure_image(self, pod: Pod, container: Container, sandbox: PodSandboxConfig) -> PulledImage:
        """Return the image of a container, pulled if its policy requires it. Raises `ContainerStartError`."""
        spec = ImageSpec(image=with_default_tag(container.image), user_specified_image=container.image)
        found = await self._find(container, spec)
        policy = container.image_pull_policy
        if found is not None and policy != "Always":
            self._events.record_image_pulled(pod, container, None, 0.0)
            return _pulled(found)
        if policy == "Never":
            message = f'Container image "{container.image}" is not present with pull policy of Never'
            raise ContainerStartError("ErrImageNeverPull", message)
        self._events.record_image_pulling(pod, container)
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self._pulls:
            await self._pull(pod, container, spec, sandbox)
        found = await self._find(container, spec)
        if found is None:
            raise ContainerStartError("ErrImagePull", f'image "{container.image}" is not present after its pull')
        self._events.record_image_pulled(pod, container, found.size, loop.time() - began)
        return _pulled(found)

    async def ensure_volume_images(
        self, pod: Pod, container: Container, sandbox: PodSandboxConfig
    ) -> dict[str, ImageSpec]:
        """Return the images that a container mounts as volumes, by volume name. Raises `ContainerStartError`."""
        found = {}
        mounted = {one.name for one in container.volume_mounts}
        for volume in pod.spec.volumes:
            if (source := volume.image) is not None and volume.name in mounted:
                wanted = Container(image=source.reference, image_pull_policy=source.pull_policy)
                image = await self.ensure_image(pod, wanted, sandbox)
                spec = ImageSpec(
                    image=image.ref, user_specified_image=source.reference, annotations=pod.metadata.annotations
                )
                found[volume.name] = spec
        return found

    async def _find(self, container: Container, spec: ImageSpec) -> Image | None:
        try:
            return await self._images.image_status(spec)
        except RpcError as error:
            message = f'Failed to inspect image "{container.image}": {error.format()}'
            raise ContainerStartError("ImageInspectError", message) from None

    async def _pull(self, pod: Pod, container: Container, spec: ImageSpec, sandbox: PodSandboxConfig) -> None:
        """Pull with each of the credentials that fit, until one works."""
        credentials: list[AuthConfig | None] = [one async for one in self._credentials(pod, spec.image)]
        failure = ""
        for auth in credentials or (None,):
            try:
                await self._images.pull_image(PullImageRequest(image=spec, auth=auth, sandbox_config=sandbox))
            except RpcError as error:
                failure = error.details
            else:
                return
        raise ContainerStartError("ErrImagePull", failure)

    async def _credentials(self, pod: Pod, image: str) -> AsyncIterator[AuthConfig]:
        secrets: list[Secret] = []
        for reference in pod.spec.image_pull_secrets:
            with suppress(ApiError):  # as upstream: the pull is tried without it
                secrets.append(await self._client.get(Secret, reference.name, pod.metadata.namespace))
        for auth in matching_credentials(secrets, image):
            yield auth


def with_default_tag(image: str) -> str:
    """Return an image reference with the tag `latest`, unless it has a tag or a digest."""
    name = image.rpartition("/")[2]
    return image if "@" in image or ":" in name else f"{image}:latest"


def repository_of(image: str) -> str:
    """Return the registry and path of an image without tag and digest, which credentials are matched with."""
    name = image.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    name = f"{folder}{slash}{last.partition(':')[0]}"
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        first, rest = _DEFAULT_REGISTRY, name
    if first in (_DEFAULT_REGISTRY, _DOCKER_HUB):
        return f"{_DEFAULT_REGISTRY}/{rest if '/' in rest else f'library/{rest}'}"
    return f"{first}/{rest}"


def matching_credentials(secrets: Iterable[Secret], image: str) -> Iterator[AuthConfig]:
    """Yield the credentials of pull secrets for an image, those of the most special names first."""
    name = repository_of(image)
    entries = [(_key_of(server), entry) for one in secrets for server, entry in _entries_of(one).items()]
    entries.sort(key=lambda one: one[0], reverse=True)
    found = [entry for key, entry in entries if _is_match(key, name)]
    if not found and name.startswith(f"{_DEFAULT_REGISTRY}/"):
        found = [entry for key, entry in entries if key == _DOCKER_HUB]
    return map(_auth_of, found)


def _key_of(server: str) -> str:
    """Return the host and path of an entry; the paths of the registries' versions mean the whole host."""
    host, slash, path = server.removeprefix("https://").removeprefix("http://").partition("/")
    path = f"{slash}{path}"
    path = path[3:] if path.startswith(("/v1/", "/v2/")) else path
    return host if path == "/" else f"{host}{path}"


def _is_match(key: str, name: str) -> bool:
    """Return True if a host, whose labels may have wildcards, and the begin of a path are those of a name."""
    (wanted, _, path), (host, _, rest) = key.partition("/"), name.partition("/")
    patterns, _, wanted_port = wanted.partition(":")
    labels, _, port = host.partition(":")
    pairs = list(zip_longest(patterns.split("."), labels.split(".")))
    is_host = all(one is not None and two is not None and fnmatchcase(two, one) for one, two in pairs)
    return is_host and wanted_port == port and rest.startswith(path)


def _entries_of(secret: Secret) -> Mapping[str, Mapping[str, str]]:
    content = next((secret.data[key] for key in _SECRET_KEYS if key in secret.data), b"{}")
    try:
        found = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return {}
    entries = found.get("auths", {}) if ".dockerconfigjson" in secret.data else found
    return {server: entry for server, entry in entries.items() if isinstance(entry, dict)}


def _auth_of(entry: Mapping[str, str]) -> AuthConfig:
    username, password = entry.get("username", ""), entry.get("password", "")
    if entry.get("auth"):
        with suppress(binascii.Error, UnicodeDecodeError):
            username, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
    return AuthConfig(username=username, password=password, identity_token=entry.get("identitytoken", ""))


def _pulled(image: Image) -> PulledImage:
    uid = image.uid.value if image.uid is not None else None
    return PulledImage(image.id, ImageUser(uid, image.username))
