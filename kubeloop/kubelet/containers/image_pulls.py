# SPDX-License-Identifier: Apache-2.0
"""Image pulls: which images must be pulled, and the back-off after failures. Pure.

failed ─▶ error shown for a while ─▶ in back-off: checked and reported every ten seconds ─▶ retried, delay doubled …
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from kubeloop.api.generated.core_v1 import Container
from kubeloop.api.scalars.duration import SECOND, format_duration
from kubeloop.kubelet.sync.pod_state import ContainerWaiting, PullBackOff
from kubeloop.kubelet.sync.restart import INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS

IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
# Reasons of failed pulls; only these back off.
PULL_FAILURES = frozenset({"ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed"})
# Reasons of image errors; events show the reason instead of the message.
IMAGE_FAILURES = PULL_FAILURES | {"ErrImageNeverPull", "InvalidImageName", "ImageInspectError", IMAGE_PULL_BACK_OFF}
# Interval of checks; the first check follows sooner after the sandbox was created.
CHECK_SECONDS, FIRST_CHECK_SECONDS = 10.0, 1.0


def waiting_after_failed_pull(
    before: ContainerWaiting | None, reason: str, message: str, now: datetime
) -> ContainerWaiting:
    """Return the waiting state of a container whose image could not be pulled."""
    last = before.pull_backoff if before is not None else None
    delay = INITIAL_BACKOFF_SECONDS if last is None else min(2 * last.delay, MAX_BACKOFF_SECONDS)
    back_off = PullBackOff(delay, now + timedelta(seconds=delay), f"{reason}: {message}")
    look = FIRST_CHECK_SECONDS if last is None else CHECK_SECONDS
    return ContainerWaiting(reason, message, now + timedelta(seconds=look), now, back_off)


def waiting_in_back_off(image: str, back_off: PullBackOff, now: datetime) -> ContainerWaiting:
    """Return the waiting state during the back-off."""
    message = f'Back-off pulling image "{image}": {back_off.error}'
    return ContainerWaiting(
        IMAGE_PULL_BACK_OFF, message, min(now + timedelta(seconds=CHECK_SECONDS), back_off.ends), now, back_off
    )


def needs_pull(container: Container, present: set[str]) -> bool:
    """Return True if the image must be pulled, given the node's images; with policy Never it is assumed present."""
    if container.image_pull_policy == "Always":
        return True
    return container.image_pull_policy != "Never" and container.image not in present


def pulled_message(image: str, seconds: float, size: int | None = None) -> str:
    """Return the message of a completed pull; a simulated image has a fictitious but constant size."""
    took = format_duration(int(seconds * 1000) * SECOND // 1000)
    if size is None:
        size = 2**20 + int.from_bytes(sha256(image.encode()).digest()[:4]) % 2**27
    return f'Successfully pulled image "{image}" in {took} ({took} including waiting). Image size: {size} bytes.'
