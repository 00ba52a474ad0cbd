# SPDX-License-Identifier: Apache-2.0
"""Image manager: provides the image of a container by its pull policy, with credentials that the pod may use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.credentialprovider.docker_config import DockerConfigError
from kubeloop.kubelet.credentialprovider.keyring import TrackedAuthConfig
from kubeloop.kubelet.credentialprovider.pull_keyring import PullKeyring
from kubeloop.kubelet.cri.config.security_context import ImageUser
from kubeloop.kubelet.cri.messages.image import Image, ImageSpec, PullImageRequest
from kubeloop.kubelet.cri.messages.sandbox import PodSandboxConfig
from kubeloop.kubelet.cri.services import ImageService
from kubeloop.kubelet.images.pull_credentials import PodPullCredentials
from kubeloop.kubelet.images.pull_manager import ImagePullManager
from kubeloop.kubelet.images.pull_records import ImagePullCredentials, PullRecordError
from kubeloop.kubelet.images.references import ImageNameError, repository_of, with_default_tag
from kubeloop.kubelet.runtime import ContainerStartError

_UNLIMITED = 1 << 30
# Errors of runtimes that are reasons of their own, and what they say.
_PULL_ERRORS = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}


class PulledImage(NamedTuple):
    """Image that is present."""

    ref: str
    user: ImageUser


class PullEvents(Protocol):
    """Events of image pulls."""

    def record_image_pulling(self, pod: Pod, container: Container) -> None:
        """Emit Pulling."""

    def record_image_pulled(self, pod: Pod, container: Container, size: int, seconds: float) -> None:
        """Emit Pulled for an image that was pulled."""

    def record_image_present(self, pod: Pod, container: Container, *, is_verified: bool) -> None:
        """Emit Pulled for an image that was already present."""


class PullParts(NamedTuple):
    """Parts that provide credentials and check them; without records, present images are for all pods."""

    keyring: PullKeyring
    records: ImagePullManager | None


class ImageManager:
    """Ensures images, at most `parallel` pulls at a time; 0 for any number."""

    def __init__(self, images: ImageService, parts: PullParts, events: PullEvents, parallel: int) -> None:
        self._images = images
        self._keyring, self._records = parts
        self._events = events
        self._pulls = asyncio.Semaphore(parallel or _UNLIMITED)

    async def ensure_image(self, pod: Pod, container: Container, sandbox: PodSandboxConfig) -> PulledImage:
        """Return the image of a container, pulled if its policy requires it. Raises `ContainerStartError`."""
        request = _ImageRequest(pod, container, _spec_of(container), sandbox, self._keyring)
        found = None if container.image_pull_policy == "Always" else await self._find(request)
        if found is not None and not await self._must_pull(request, found):
            self._events.record_image_present(pod, container, is_verified=self._records is not None)
            return _pulled(found)
        if container.image_pull_policy == "Never":  # the same for an image that the pod may not use
            message = f'Container image "{container.image}" is not present with pull policy of Never'
            raise ContainerStartError("ErrImageNeverPull", message)
        return _pulled(await self._pull(request))

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

    async def _find(self, request: _ImageRequest) -> Image | None:
        try:
            return await self._images.image_status(request.spec)
        except RpcError as error:
            message = f'Failed to inspect image "{request.container.image}": {error.format()}'
            raise ContainerStartError("ImageInspectError", message) from None

    async def _must_pull(self, request: _ImageRequest, found: Image) -> bool:
        if self._records is None:
            return False
        name = request.container.image
        return await self._records.must_attempt_pull(name, found.id, request.pull_credentials)

    async def _pull(self, request: _ImageRequest) -> Image:
        """Pull an image; the intent is recorded before, and the credentials that gave access after it."""
        credentials = await request.credentials()
        if self._records is None:
            return (await self._pull_with(request, credentials))[0]
        name = request.container.image
        try:
            self._records.record_intent(name)
        except PullRecordError as error:
            message = f'Failed to record image pull intent for container image "{name}": {error}'
            raise ContainerStartError(str(error), message) from None
        try:
            image, ref, used = await self._pull_with(request, credentials)
        except BaseException:
            self._records.record_pull_failed(name)
            raise
        anyone = ImagePullCredentials(node_pods_accessible=True)
        self._records.record_pulled(name, ref, anyone if used is None else used.pull_credentials)
        return image

    async def _pull_with(
        self, request: _ImageRequest, credentials: list[TrackedAuthConfig]
    ) -> tuple[Image, str, TrackedAuthConfig | None]:
        """Return the pulled image, its reference and the credentials that gave access."""
        pod, container = request.pod, request.container
        self._events.record_image_pulling(pod, container)
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self._pulls:
            ref, used = await self._try_credentials(request, credentials)
        found = await self._find(request)
        if found is None:
            raise ContainerStartError("ErrImagePull", f'image "{container.image}" is not present after its pull')
        self._events.record_image_pulled(pod, container, found.size, loop.time() - began)
        return found, ref, used

    async def _try_credentials(
        self, request: _ImageRequest, credentials: list[TrackedAuthConfig]
    ) -> tuple[str, TrackedAuthConfig | None]:
        """Pull with each of the credentials that fit, until one works."""
        failures = []
        for one in credentials or (None,):
            auth = None if one is None else one.auth
            pull = PullImageRequest(image=request.spec, auth=auth, sandbox_config=request.sandbox)
            try:
                return await self._images.pull_image(pull), one
            except RpcError as error:
                failures.append(error.details)
        raise pull_error(request.container.image, failures)


class _ImageRequest:
    """Image that a container needs; its credentials are looked up once, and no earlier than they are needed."""

    def __init__(
        self, pod: Pod, container: Container, spec: ImageSpec, sandbox: PodSandboxConfig, keyring: PullKeyring
    ) -> None:
        self.pod = pod
        self.container = container
        self.spec = spec
        self.sandbox = sandbox
        self._keyring = keyring
        self._credentials: list[TrackedAuthConfig] | None = None

    async def credentials(self) -> list[TrackedAuthConfig]:
        """Return the credentials to try. Raises `ContainerStartError`."""
        if self._credentials is None:
            try:
                self._credentials = await self._keyring.lookup(self.pod, repository_of(self.spec.image))
            except (DockerConfigError, ImageNameError) as error:
                raise ContainerStartError(str(error), str(error)) from None
        return self._credentials

    async def pull_credentials(self) -> PodPullCredentials:
        """Return the credentials that are the pod's own, to compare them with records."""
        found = [one.pull_credentials for one in await self.credentials()]
        accounts = [account for one in found for account in one.kubernetes_service_accounts]
        secrets = tuple(secret for one in found for secret in one.kubernetes_secrets)
        return PodPullCredentials(secrets, accounts[0] if accounts else None)


def pull_error(image: str, failures: Iterable[str]) -> ContainerStartError:
    """Return the error of a pull that failed with all credentials."""
    distinct = list(dict.fromkeys(failures))
    message = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
    for reason, meaning in _PULL_ERRORS.items():
        if message.startswith(reason):
            rest = message.removeprefix(reason)
            return ContainerStartError(reason, f"image pull failed for {image} because {meaning}{rest}")
    return ContainerStartError("ErrImagePull", message)


def _spec_of(container: Container) -> ImageSpec:
    try:
        image = with_default_tag(container.image)
    except ImageNameError as error:
        message = f'Failed to apply default image tag "{container.image}": {error}'
        raise ContainerStartError("InvalidImageName", message) from None
    return ImageSpec(image=image, user_specified_image=container.image)


def _pulled(image: Image) -> PulledImage:
    uid = image.uid.value if image.uid is not None else None
    return PulledImage(image.id, ImageUser(uid, image.username))
