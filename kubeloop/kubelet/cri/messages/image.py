# SPDX-License-Identifier: Apache-2.0
"""CRI messages of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from kubeloop.grpc.message import GrpcMessage, Unsigned
from kubeloop.kubelet.cri.messages.sandbox import PodSandboxConfig
from kubeloop.kubelet.cri.messages.security import Int64Value


class ImageSpec(GrpcMessage, frozen=True, kw_only=True):
    """Reference of an image."""

    image: Annotated[str, 1] = ""
    annotations: Annotated[Mapping[str, str], 2] = {}
    user_specified_image: Annotated[str, 18] = ""
    runtime_handler: Annotated[str, 19] = ""
    image_ref: Annotated[str, 20] = ""


class Image(GrpcMessage, frozen=True, kw_only=True):
    """Image in the store of the runtime."""

    id: Annotated[str, 1] = ""
    repo_tags: Annotated[tuple[str, ...], 2] = ()
    repo_digests: Annotated[tuple[str, ...], 3] = ()
    size: Annotated[int, Unsigned(4)] = 0
    uid: Annotated[Int64Value | None, 5] = None
    username: Annotated[str, 6] = ""
    spec: Annotated[ImageSpec | None, 7] = None
    pinned: Annotated[bool, 8] = False


class ImageFilter(GrpcMessage, frozen=True, kw_only=True):
    """Selection of images."""

    image: Annotated[ImageSpec | None, 1] = None


class ListImagesRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of ListImages."""

    filter: Annotated[ImageFilter | None, 1] = None


class ListImagesResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of ListImages."""

    images: Annotated[tuple[Image, ...], 1] = ()


class ImageStatusRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of ImageStatus."""

    image: Annotated[ImageSpec | None, 1] = None
    verbose: Annotated[bool, 2] = False


class ImageStatusResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of ImageStatus."""

    image: Annotated[Image | None, 1] = None
    info: Annotated[Mapping[str, str], 2] = {}


class AuthConfig(GrpcMessage, frozen=True, kw_only=True):
    """Credentials of a registry."""

    username: Annotated[str, 1] = ""
    password: Annotated[str, 2] = ""
    auth: Annotated[str, 3] = ""
    server_address: Annotated[str, 4] = ""
    identity_token: Annotated[str, 5] = ""
    registry_token: Annotated[str, 6] = ""


class PullImageRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of PullImage."""

    image: Annotated[ImageSpec | None, 1] = None
    auth: Annotated[AuthConfig | None, 2] = None
    sandbox_config: Annotated[PodSandboxConfig | None, 3] = None


class PullImageResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of PullImage."""

    image_ref: Annotated[str, 1] = ""


class RemoveImageRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of RemoveImage."""

    image: Annotated[ImageSpec | None, 1] = None


class RemoveImageResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of RemoveImage."""
