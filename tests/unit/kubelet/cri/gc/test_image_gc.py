# SPDX-License-Identifier: Apache-2.0
"""Removal of unused images, with a fake runtime whose disk is as full as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random

import pytest

from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.gc import image_gc
from kubeloop.kubelet.cri.gc.image_gc import ImageGCError, ImageGCManager, ImageGCPolicy, format_size, node_images_of
from kubeloop.kubelet.cri.messages.container import Container
from kubeloop.kubelet.cri.messages.image import Image, ImageSpec
from kubeloop.kubelet.cri.messages.stats import ImageFsInfoResponse
from kubeloop.kubelet.cri.stats.summary import FsStats, RuntimeStats


class FakeClock:
    """Clock that the test advances."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds

    def random(self) -> Random:
        return Random(0)


class Node:
    """Images of a node with a disk of 1000 bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, policy: ImageGCPolicy | None = None) -> None:
        self.images = {id: Image(id=id, size=30) for id in ("a", "b", "c")}
        self.used_images = {"a"}
        self.capacity, self.other_bytes = 1000, 770
        self.warnings: list[tuple[str, str]] = []
        self.error: RpcError | None = None
        self.clock = FakeClock()
        monkeypatch.setattr(image_gc, "runtime_stats", lambda info, time: RuntimeStats(image_fs=self.fs()))
        record = lambda reason, message: self.warnings.append((reason, message))  # noqa: E731
        self.manager = ImageGCManager(self, self, self.clock, policy or ImageGCPolicy(), record)

    def fs(self) -> FsStats:
        used = self.other_bytes + sum(one.size for one in self.images.values())
        return FsStats(time="", capacity_bytes=self.capacity, available_bytes=self.capacity - used)

    async def list_images(self) -> tuple[Image, ...]:
        return tuple(self.images.values())

    async def list_containers(self, labels: Mapping[str, str], sandbox: str = "") -> tuple[Container, ...]:
        return tuple(Container(id=f"c-{id}", image_ref=id) for id in self.used_images)

    async def remove_image(self, spec: ImageSpec) -> None:
        if self.error is not None:
            raise self.error
        del self.images[spec.image]

    async def image_fs_info(self) -> ImageFsInfoResponse:
        return ImageFsInfoResponse()

    def collect(self, after: float = 300.0) -> None:
        self.clock.seconds += after
        asyncio.run(self.manager.collect())


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(monkeypatch)


def test_unused_images_are_removed_to_the_low_threshold(node: Node) -> None:
    node.other_bytes = 750  # 84 %
    node.collect()
    assert set(node.images) == {"a", "b", "c"}
    node.other_bytes = 770  # 86 %: 60 bytes to free
    node.collect()
    assert (set(node.images), node.warnings) == ({"a"}, [])


def test_the_longest_unused_image_is_removed_first(node: Node) -> None:
    node.other_bytes = 750
    for used in ({"a", "b", "c"}, {"a", "b"}):
        node.used_images = used
        node.collect()
    node.used_images = {"a"}
    node.images["d"] = Image(id="d", size=30, pinned=True)  # 87 %
    node.images["a"] = Image(id="a", size=1)
    node.other_bytes = 760  # 851 bytes are used: 51 bytes to free
    node.images["c"] = Image(id="c", size=60)  # 881: 81 bytes to free, of which c is the first part
    node.collect()
    assert set(node.images) == {"a", "d"}
    assert node.warnings == []


def test_pinned_and_young_images_are_kept(node: Node) -> None:
    node.images["b"] = Image(id="b", size=30, pinned=True)
    with pytest.raises(ImageGCError, match=r"86% of 1000 B used\)\. Failed to free .* \(freed 0 bytes\)"):
        node.collect()  # c was detected just now
    assert [reason for reason, _ in node.warnings] == ["FreeDiskSpaceFailed"]
    with pytest.raises(ImageGCError, match="freed 30 bytes"):
        node.collect(120.0)
    assert set(node.images) == {"a", "b"}


def test_errors_of_the_runtime_are_reported(node: Node) -> None:
    node.other_bytes = 0
    node.collect()
    node.other_bytes, node.error = 770, RpcError(13, "read-only file system")
    with pytest.raises(ImageGCError, match="read-only file system"):
        node.collect()
    assert set(node.images) == {"a", "b", "c"}


def test_disk_without_capacity_is_an_error(node: Node) -> None:
    node.capacity = 0
    with pytest.raises(ImageGCError, match="invalid capacity 0 on image filesystem"):
        node.collect()
    assert [reason for reason, _ in node.warnings] == ["InvalidDiskCapacity"]


def test_all_unused_images_are_removed_under_disk_pressure(node: Node) -> None:
    node.other_bytes = 0
    node.collect()
    node.clock.seconds += 300.0
    asyncio.run(node.manager.delete_unused())
    assert set(node.images) == {"a"}


def test_node_status_lists_the_largest_images() -> None:
    digests = tuple(f"x@{number}" for number in range(9))
    images = tuple(Image(id=str(size), size=size, repo_digests=digests, repo_tags=("x:1",)) for size in range(60))
    found = node_images_of(images)
    assert [one.size_bytes for one in found] == list(range(59, 9, -1))
    assert found[0].names == digests[:5]
    assert node_images_of((Image(id="1", size=2, repo_tags=("x:1",)),))[0].names == ("x:1",)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 << 30, "5.0 GiB"),
        (1 << 40, "1.0 TiB"),
        (1 << 51, "2048.0 TiB"),
    ],
)
def test_sizes_are_formatted_for_readers(size: int, text: str) -> None:
    assert format_size(size) == text


def test_images_that_were_not_used_for_the_longest_age_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, ImageGCPolicy(max_age=1000.0))
    node.other_bytes = 0
    node.used_images = {"a", "b"}
    node.collect()
    node.used_images = {"a"}
    node.collect(600.0)
    assert set(node.images) == {"a", "b", "c"}
    node.collect(200.0)
    assert set(node.images) == {"a", "b"}
    node.collect(300.0)
    assert set(node.images) == {"a"}


def test_the_number_of_images_in_the_status_can_be_set() -> None:
    images = tuple(Image(id=str(number), size=number) for number in range(60))
    assert [len(node_images_of(images, most)) for most in (-1, 0, 3, 50)] == [60, 0, 3, 50]


def test_records_of_pulls_follow_a_collection(node: Node) -> None:
    left: list[set[str]] = []
    node.manager = ImageGCManager(
        node, node, node.clock, ImageGCPolicy(), lambda *_: None, lambda images, _: left.append(set(images))
    )
    node.other_bytes = 750
    node.collect()
    assert left == [], "nothing was removed"
    node.other_bytes = 770
    node.collect()
    assert left == [{"a"}], "images in use are left, too"
    asyncio.run(node.manager.delete_unused())
    assert left == [{"a"}, {"a"}]
