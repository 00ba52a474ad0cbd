# SPDX-License-Identifier: Apache-2.0
"""Image pull manager: records which credentials gave access to images, and checks those of pods against the records.

intent written ─▶ pull ─▶ record of the image with the credentials written ─▶ intent removed

A kubelet that ends in between finds the intent: the image counts as pulled by the kubelet, with unknown credentials.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import datetime

from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.clock import Clock
from kubeloop.kubelet.cri.messages.image import Image
from kubeloop.kubelet.images.pull_credentials import PodPullCredentials, match_credentials, merge_credentials
from kubeloop.kubelet.images.pull_policies import CredentialVerificationPolicy
from kubeloop.kubelet.images.pull_records import (
    ImagePullCredentials,
    ImagePulledRecord,
    PullRecordError,
    PullRecords,
)
from kubeloop.kubelet.images.references import ImageNameError, without_tag_and_digest

log = logging.getLogger(__name__)

ReadPodCredentials = Callable[[], Awaitable[PodPullCredentials]]


class ImagePullManager:
    """Records of the image pulls of one node."""

    def __init__(self, records: PullRecords, policy: CredentialVerificationPolicy, clock: Clock) -> None:
        self._records = records
        self._policy = policy
        self._clock = clock
        self._pulls: Counter[str] = Counter()  # under way, by the image name of pods

    def open(self) -> None:
        """Create the folders of the records. Raises `PullRecordError`."""
        self._records.open()

    def has_intents(self) -> bool:
        """Return True if a kubelet before has left pulls under way."""
        return bool(self._records.intents())

    def resolve_intents(self, images: Iterable[Image]) -> None:
        """Turn intents of a kubelet before into records without credentials, for images that are present."""
        names = {one.image for one in self._records.intents()}
        for image in images:
            for name in names.intersection((*image.repo_digests, *image.repo_tags)):
                try:
                    self._write_pulled(name, image.id, None)
                    self._records.remove_intent(name)
                except (PullRecordError, ImageNameError) as error:
                    log.error("failed to write an image pull record of %s: %s", name, error)

    def record_intent(self, image: str) -> None:
        """Record that a pull begins; `image` is the name in the pod. Raises `PullRecordError`."""
        try:
            self._records.write_intent(image)
        except PullRecordError as error:
            raise PullRecordError(f"failed to record image pull intent: {error}") from None
        self._pulls[image] += 1

    def record_pulled(self, image: str, image_ref: str, credentials: ImagePullCredentials) -> None:
        """Record a pull that has succeeded. If that fails, the intent is kept: the image stays known as pulled."""
        try:
            self._write_pulled(image, image_ref, credentials)
        except (PullRecordError, ImageNameError) as error:
            log.error("failed to write image pulled record of %s: %s", image_ref, error)
            return
        self.record_pull_failed(image)

    def record_pull_failed(self, image: str) -> None:
        """Record the end of a pull; the intent is removed with the last pull of the image."""
        if self._pulls[image] > 1:
            self._pulls[image] -= 1
            return
        try:
            self._records.remove_intent(image)
        except PullRecordError as error:
            log.error("failed to remove image pull intent of %s: %s", image, error)
            return
        del self._pulls[image]

    async def must_attempt_pull(self, image: str, image_ref: str, read_credentials: ReadPodCredentials) -> bool:
        """Return True unless the policy or a record gives a pod access to a present image.

        Errors of `read_credentials` are passed on.
        """
        try:
            record = self._records.get_pulled(image_ref)
            is_ours = record is not None or self._pulls[image] > 0 or self._records.has_intent(image)
        except PullRecordError as error:
            log.error("Unable to access cache records about image pulls: %s", error)
            return True
        if not self._policy.requires_verification(image, is_pulled_by_kubelet=is_ours):
            return False
        recorded = None if record is None else _recorded_credentials(record, image)
        if recorded is None or recorded.node_pods_accessible:
            return recorded is None
        if not recorded.kubernetes_secrets and not recorded.kubernetes_service_accounts:
            return True
        found = match_credentials(recorded, await read_credentials())
        if found.new_secret is not None:
            try:
                self._write_pulled(image, image_ref, ImagePullCredentials(kubernetes_secrets=(found.new_secret,)))
            except PullRecordError as error:
                log.error("failed to write an image pulled record of %s: %s", image_ref, error)
        return not found.is_found

    def prune(self, images: Collection[str], until: datetime) -> None:
        """Remove the records, older than a time, of images that are not present any more."""
        for record in self._records.pulled():
            updated = record.last_updated_time
            if record.image_ref in images or (updated is not None and parse_time(updated) >= until):
                continue
            try:
                self._records.remove_pulled(record.image_ref)
            except PullRecordError as error:
                log.error("failed to remove an ImagePulledRecord of %s: %s", record.image_ref, error)

    def _write_pulled(self, image: str, image_ref: str, credentials: ImagePullCredentials | None) -> None:
        """Add credentials to the record of an image; without them it is only known that the kubelet has pulled it."""
        name, now = without_tag_and_digest(image), format_time(self._clock.now())
        try:
            before = self._records.get_pulled(image_ref)
        except PullRecordError as error:
            log.info("failed to retrieve an ImagePulledRecord of %s: %s", image, error)
            before = None
        mapping = {name: credentials} if credentials is not None else {}
        record = (
            ImagePulledRecord(last_updated_time=now, image_ref=image_ref, credential_mapping=mapping)
            if before is None
            else merge_credentials(before, name, credentials, now)
        )
        if record is not before:
            self._records.write_pulled(record)


def _recorded_credentials(record: ImagePulledRecord, image: str) -> ImagePullCredentials | None:
    try:
        return record.credential_mapping.get(without_tag_and_digest(image))
    except ImageNameError as error:
        log.error("failed to parse image name %s, forcing image credentials reverification: %s", image, error)
        return None
