"""Images: which ones have to be pulled, and how long a container waits for one that can't be. Pure.

failed at ─▶ shown for a while ─▶ in back-off: looked at every ten seconds, and told ─▶ tried again, twice as long …
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from kubeloop.api.generated.core_v1 import Container
from kubeloop.api.scalars.duration import SECOND, format_duration
from kubeloop.kubelet.sync.pod_state import PullBackOff, Waiting
from kubeloop.kubelet.sync.restart import FIRST_DELAY, LONGEST_DELAY

BACKS_OFF = "ImagePullBackOff"
# What goes wrong while an image is pulled: only that is backed off from.
PULL_FAILURES = frozenset({"ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed"})
# What else goes wrong with images: reasons that events name instead of telling more.
IMAGE_FAILURES = PULL_FAILURES | {"ErrImageNeverPull", "InvalidImageName", "ImageInspectError", BACKS_OFF}
# A pod is looked at so often; soon after its sandbox was made, once more.
LOOK_SECONDS, SOON_SECONDS = 10.0, 1.0


def after_failed_pull(before: Waiting | None, reason: str, message: str, now: datetime) -> Waiting:
    """How a container waits whose image could not be pulled."""
    last = before.pull if before is not None else None
    delay = FIRST_DELAY if last is None else min(2 * last.delay, LONGEST_DELAY)
    back_off = PullBackOff(delay, now + timedelta(seconds=delay), f"{reason}: {message}")
    look = SOON_SECONDS if last is None else LOOK_SECONDS
    return Waiting(reason, message, now + timedelta(seconds=look), now, back_off)


def while_backing_off(image: str, back_off: PullBackOff, now: datetime) -> Waiting:
    """How it waits after that, until the next try."""
    message = f'Back-off pulling image "{image}": {back_off.error}'
    return Waiting(BACKS_OFF, message, min(now + timedelta(seconds=LOOK_SECONDS), back_off.ends), now, back_off)


def is_pulled(container: Container, present: set[str]) -> bool:
    """Whether a container's image is pulled, given those that a node has; who never pulls is taken to have it."""
    if container.image_pull_policy == "Always":
        return True
    return container.image_pull_policy != "Never" and container.image not in present


def pulled_text(image: str, seconds: float) -> str:
    """What is told of an image that was pulled; its size is made up, but always the same."""
    took = format_duration(int(seconds * 1000) * SECOND // 1000)
    size = 2**20 + int.from_bytes(sha256(image.encode()).digest()[:4]) % 2**27
    return f'Successfully pulled image "{image}" in {took} ({took} including waiting). Image size: {size} bytes.'
