# SPDX-License-Identifier: Apache-2.0
"""Removes unused images when their file system becomes full, and lists the images of the node, as upstream does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from kubeloop.api.generated.core_v1 import ContainerImage
from kubeloop.clock import Clock
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.messages.container import Container
from kubeloop.kubelet.cri.messages.image import Image, ImageSpec
from kubeloop.kubelet.cri.messages.stats import ImageFsInfoResponse
from kubeloop.kubelet.cri.stats.conversion import runtime_stats

_GC_SECONDS, _LIST_SECONDS = 300.0, 30.0
_MOST_IMAGES, _MOST_NAMES = 50, 5  # in node.status.images
_UNITS = ("KiB", "MiB", "GiB", "TiB")

log = logging.getLogger(__name__)

RecordNodeWarning = Callable[[str, str], None]  # reason and message
PostImageGCHook = Callable[[Collection[str], datetime], None]  # IDs of the images that are left, begin of the GC


class ImageGCError(Exception):
    """Raised if not enough space could be freed."""


class ImageGCPolicy(NamedTuple):
    """Limits of image garbage collection; ages in seconds."""

    high_percent: int = 85  # usage from which images are removed
    low_percent: int = 80  # usage to reach
    min_age: float = 120.0  # of a removed image
    max_age: float = 0.0  # since its last use, from which an image is removed; 0 for none
    max_node_images: int = _MOST_IMAGES  # in the status of the node; -1 for all


class ImageStore(Protocol):
    """Calls of `kubeloop.kubelet.cri.services.ImageService` for garbage collection."""

    async def list_images(self) -> tuple[Image, ...]:
        """Return all images."""

    async def remove_image(self, spec: ImageSpec) -> None:
        """Remove an image."""

    async def image_fs_info(self) -> ImageFsInfoResponse:
        """Return the usage of the file systems of images and containers."""


class ContainerLister(Protocol):
    """Call of `kubeloop.kubelet.cri.services.RuntimeService` that tells which images are in use."""

    async def list_containers(self, labels: Mapping[str, str], sandbox: str = "") -> tuple[Container, ...]:
        """Return the containers with these labels."""


@dataclass(slots=True)
class _ImageRecord:
    """Image that was seen; times are of the monotonic clock."""

    image: Image
    first_detected: float
    last_used: float = 0.0


class ImageGCManager:
    """Images of one node."""

    def __init__(
        self,
        images: ImageStore,
        containers: ContainerLister,
        clock: Clock,
        policy: ImageGCPolicy,
        record_warning: RecordNodeWarning,
        on_collected: PostImageGCHook | None = None,
    ) -> None:
        self._images = images
        self._containers = containers
        self._clock = clock
        self._policy = policy
        self._record_warning = record_warning
        self._on_collected = on_collected
        self._records: dict[str, _ImageRecord] = {}  # by image ID
        self._began = clock.monotonic()
        self._listed: tuple[ContainerImage, ...] | None = None

    def node_images(self) -> tuple[ContainerImage, ...] | None:
        """Return the images for the node's status; None before they were listed."""
        return self._listed

    async def run_list(self) -> None:
        """List the images forever."""
        while True:
            try:
                self._listed = node_images_of(await self._images.list_images(), self._policy.max_node_images)
            except RpcError as error:
                log.info("images could not be listed: %s", error.format())
            await asyncio.sleep(_LIST_SECONDS)

    async def run_gc(self) -> None:
        """Collect garbage forever; only repeated failures are reported as events."""
        has_failed = False
        while True:
            try:
                await self.collect()
                has_failed = False
            except (ImageGCError, RpcError) as error:
                message = error.format() if isinstance(error, RpcError) else str(error)
                log.error("image garbage collection failed: %s", message)
                if has_failed:
                    self._record_warning("ImageGCFailed", message)
                has_failed = True
            await asyncio.sleep(_GC_SECONDS)

    async def collect(self) -> None:
        """Remove unused images if the usage is above the high threshold. Raises `ImageGCError` and `RpcError`."""
        began, began_at = self._clock.monotonic(), self._clock.now()
        candidates = await self._free_old(await self._unused(began), began)
        fs = runtime_stats(await self._images.image_fs_info(), "").image_fs
        capacity, available = (fs.capacity_bytes or 0, fs.available_bytes or 0) if fs is not None else (0, 0)
        if not capacity:
            message = "invalid capacity 0 on image filesystem"
            self._record_warning("InvalidDiskCapacity", message)
            raise ImageGCError(message)
        used = 100 - min(available, capacity) * 100 // capacity
        if used < self._policy.high_percent:
            return
        wanted = capacity * (100 - self._policy.low_percent) // 100 - available
        freed = await self._free(candidates, began, wanted)
        self._notify(began_at)
        if freed < wanted:
            whole = format_size(capacity)
            message = (
                f"Insufficient free disk space on the node's image filesystem ({used}% of {whole} used)."
                f" Failed to free sufficient space by deleting unused images (freed {freed} bytes)."
                " Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
            )
            self._record_warning("FreeDiskSpaceFailed", message)
            raise ImageGCError(message)

    async def _free_old(self, candidates: list[_ImageRecord], now: float) -> list[_ImageRecord]:
        """Remove images that were not used for the longest age; return the others.

        Uses before the start are not known, so that the age counts from there.
        """
        longest = self._policy.max_age
        if not longest or now - self._began <= longest:
            return candidates
        await self._free([one for one in candidates if now - one.last_used > longest], now, None)
        return [one for one in candidates if one.image.id in self._records]

    async def delete_unused(self) -> None:
        """Remove all unused images, to end disk pressure. Raises `ImageGCError` and `RpcError`."""
        began, began_at = self._clock.monotonic(), self._clock.now()
        await self._free(await self._unused(began), began, None)
        self._notify(began_at)

    def _notify(self, began_at: datetime) -> None:
        if self._on_collected is not None:
            self._on_collected(self._records.keys(), began_at)

    async def _unused(self, now: float) -> list[_ImageRecord]:
        """Update the records; return the images that are neither used nor pinned, the longest unused first."""
        images = await self._images.list_images()
        in_use = {one.image_id or one.image_ref for one in await self._containers.list_containers({})}
        before = self._records
        self._records = {}
        for image in images:
            record = before.get(image.id) or _ImageRecord(image, now)
            record = _ImageRecord(image, record.first_detected, now if image.id in in_use else record.last_used)
            self._records[image.id] = record
        unused = [one for id, one in self._records.items() if id not in in_use and not one.image.pinned]
        return sorted(unused, key=lambda one: (one.last_used, one.first_detected))

    async def _free(self, candidates: list[_ImageRecord], now: float, wanted: int | None) -> int:
        """Remove images until so many bytes are freed, all of them for None; return the bytes."""
        freed, failures = 0, []
        for one in candidates:
            if now - one.first_detected < self._policy.min_age:
                continue
            try:
                await self._images.remove_image(ImageSpec(image=one.image.id))
            except RpcError as error:
                failures.append(error.format())
                continue
            log.info("removed image %s of %s bytes", one.image.id, one.image.size)
            del self._records[one.image.id]
            freed += one.image.size
            if wanted is not None and freed >= wanted:
                break
        if failures:
            raise ImageGCError(f"freed {freed} bytes space with errors in image deletion: {'; '.join(failures)}")
        return freed


def node_images_of(images: tuple[Image, ...], most: int = _MOST_IMAGES) -> tuple[ContainerImage, ...]:
    """Return the largest images, as in the status of a node; all of them for -1."""
    largest = sorted(images, key=lambda one: (-one.size, one.id))[: None if most < 0 else most]
    return tuple(
        ContainerImage(names=(*one.repo_digests, *one.repo_tags)[:_MOST_NAMES], size_bytes=one.size) for one in largest
    )


def format_size(size: int) -> str:
    """Return a size for readers, such as 1.5 GiB."""
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in _UNITS:
        amount /= 1024
        if amount < 1024 or unit == _UNITS[-1]:
            break
    return f"{amount:.1f} {unit}"
