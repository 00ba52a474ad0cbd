# SPDX-License-Identifier: Apache-2.0
"""Credentials of image pulls in records: matches them with those of a pod, and merges new ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

from kubeloop.kubelet.images.pull_records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullSecret,
    ImagePullServiceAccount,
)

# From so many secrets on, secrets that are only matched are not added to a record.
MOST_MATCHED_SECRETS = 100

T = TypeVar("T", ImagePullSecret, ImagePullServiceAccount)


class PodPullCredentials(NamedTuple):
    """Credentials of a pod for an image: its pull secrets, and the service account that plugins use."""

    secrets: tuple[ImagePullSecret, ...] = ()
    service_account: ImagePullServiceAccount | None = None


class CredentialMatch(NamedTuple):
    """Result of a match; a new secret is to be added to the record."""

    is_found: bool
    new_secret: ImagePullSecret | None = None


def match_credentials(recorded: ImagePullCredentials, pod: PodPullCredentials) -> CredentialMatch:
    """Return whether credentials of a pod gave access before: equal ones, or the same secret or service account."""
    may_add = len(recorded.kubernetes_secrets) < MOST_MATCHED_SECRETS
    for own in pod.secrets:
        for known in recorded.kubernetes_secrets:
            is_same_hash = bool(known.credential_hash) and own.credential_hash == known.credential_hash
            is_same_secret = own.coordinates == known.coordinates
            if is_same_hash:
                return CredentialMatch(True, own if may_add and not is_same_secret else None)
            if is_same_secret and may_add:
                return CredentialMatch(True, own)
    return CredentialMatch(pod.service_account in recorded.kubernetes_service_accounts)


def merge_credentials(
    record: ImagePulledRecord, image: str, new: ImagePullCredentials | None, now: str
) -> ImagePulledRecord:
    """Return a record with new credentials for a name; the same record if they add nothing."""
    if new is None or new == ImagePullCredentials():
        return record
    before = record.credential_mapping.get(image)
    merged = new if before is None else _merged(before, new)
    if merged == before:
        return record
    mapping = {**record.credential_mapping, image: merged}
    return msgspec.structs.replace(record, credential_mapping=mapping, last_updated_time=now)


def _merged(before: ImagePullCredentials, new: ImagePullCredentials) -> ImagePullCredentials:
    if before.node_pods_accessible:
        return before
    if new.node_pods_accessible:
        return ImagePullCredentials(node_pods_accessible=True)
    if new.kubernetes_secrets:
        secrets = _merged_secrets(before.kubernetes_secrets, new.kubernetes_secrets)
        return msgspec.structs.replace(before, kubernetes_secrets=secrets)
    accounts = {one.coordinates: one for one in (*before.kubernetes_service_accounts, *new.kubernetes_service_accounts)}
    if len(accounts) == len(before.kubernetes_service_accounts):
        return before
    return msgspec.structs.replace(before, kubernetes_service_accounts=_sorted(accounts.values()))


def _merged_secrets(
    before: tuple[ImagePullSecret, ...], new: tuple[ImagePullSecret, ...]
) -> tuple[ImagePullSecret, ...]:
    """Return the secrets, each once with its latest hash; unsorted ones stay as they are if nothing changes."""
    known = {one.coordinates: one for one in before}
    if all(known.get(one.coordinates) == one for one in new):
        return before
    return _sorted((known | {one.coordinates: one for one in new}).values())


def _sorted(found: Iterable[T]) -> tuple[T, ...]:
    return tuple(sorted(found, key=lambda one: one.coordinates))
