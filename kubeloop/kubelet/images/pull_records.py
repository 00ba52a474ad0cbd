# SPDX-License-Identifier: Apache-2.0
"""Files of image pulls below `<root-dir>/image_manager`: intents of pulls under way, and records of pulled images.

Formats and names are upstream's, so that either kubelet continues with the files of the other.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from kubeloop.api.scalars.times import parse_time

_VERSION, _OLD_VERSION = "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"
_PREFIX, _TEMPORARY = "sha256-", ".tmp"
_ZERO_TIME = "0001-01-01T00:00:00Z"

log = logging.getLogger(__name__)


class _RecordPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of records: unknown fields are refused."""


class ImagePullSecret(_RecordPart, frozen=True, kw_only=True):
    """Pull secret that gave access to an image."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    credential_hash: str = ""

    @property
    def coordinates(self) -> tuple[str, str, str]:
        """Namespace, name and UID of the secret."""
        return self.namespace, self.name, self.uid


class ImagePullServiceAccount(_RecordPart, frozen=True, kw_only=True):
    """Service account whose token gave access to an image."""

    uid: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def coordinates(self) -> tuple[str, str, str]:
        """Namespace, name and UID of the service account."""
        return self.namespace, self.name, self.uid


class ImagePullCredentials(_RecordPart, frozen=True, kw_only=True, omit_defaults=True):
    """Credentials that gave access to an image; with `node_pods_accessible`, all pods of the node have access."""

    kubernetes_secrets: tuple[ImagePullSecret, ...] = ()
    kubernetes_service_accounts: tuple[ImagePullServiceAccount, ...] = ()
    node_pods_accessible: bool = False


class ImagePullIntent(_RecordPart, frozen=True, kw_only=True):
    """Image whose pull is under way, as the pod names it."""

    kind: Literal["ImagePullIntent"] = "ImagePullIntent"
    api_version: str = _VERSION
    image: str = ""


class ImagePulledRecord(_RecordPart, frozen=True, kw_only=True):
    """Image that the kubelet has pulled; credentials are those of each name without tag and digest."""

    kind: Literal["ImagePulledRecord"] = "ImagePulledRecord"
    api_version: str = _VERSION
    last_updated_time: str | None = None
    image_ref: str = ""
    credential_mapping: Mapping[str, ImagePullCredentials] = msgspec.field(default_factory=dict)


T = TypeVar("T")
R = TypeVar("R", ImagePullIntent, ImagePulledRecord)


class PullRecordError(Exception):
    """Raised for a file that cannot be read, written or decoded."""


class PullRecords:
    """Intents and records of one node. A write is complete or has not happened, whenever the process ends."""

    def __init__(self, root: Path) -> None:
        self._pulling = root / "image_manager" / "pulling"
        self._pulled = root / "image_manager" / "pulled"

    def open(self) -> None:
        """Create the folders, and write files of older versions again. Raises `PullRecordError`."""
        for folder in (self._pulling, self._pulled):
            _make_folder(folder)
        for intent in self.intents():
            if intent.api_version != _VERSION:
                self.write_intent(intent.image)
        for record in self.pulled():
            if record.api_version != _VERSION:
                self.write_pulled(record)

    def intents(self) -> list[ImagePullIntent]:
        """Return all intents; files that cannot be decoded are logged and left out."""
        return list(_read_all(self._pulling, _decode_intent))

    def has_intent(self, image: str) -> bool:
        """Return True if there is an intent to pull an image. Raises `PullRecordError`."""
        content = _read(self._pulling / _file_name(image))
        return content is not None and _decode_intent(content).image == image

    def write_intent(self, image: str) -> None:
        """Write an intent. Raises `PullRecordError`."""
        _write(self._pulling, _file_name(image), _encode(ImagePullIntent(image=image)))

    def remove_intent(self, image: str) -> None:
        """Remove an intent. Raises `PullRecordError`."""
        _remove(self._pulling / _file_name(image))

    def pulled(self) -> list[ImagePulledRecord]:
        """Return all records; files that cannot be decoded are logged and left out."""
        return list(_read_all(self._pulled, _decode_pulled))

    def get_pulled(self, image_ref: str) -> ImagePulledRecord | None:
        """Return the record of an image; None if there is none. Raises `PullRecordError`."""
        content = _read(self._pulled / _file_name(image_ref))
        record = None if content is None else _decode_pulled(content)
        return record if record is not None and record.image_ref == image_ref else None

    def write_pulled(self, record: ImagePulledRecord) -> None:
        """Write a record. Raises `PullRecordError`."""
        current = msgspec.structs.replace(record, api_version=_VERSION)
        _write(self._pulled, _file_name(record.image_ref), _encode(current))

    def remove_pulled(self, image_ref: str) -> None:
        """Remove the record of an image. Raises `PullRecordError`."""
        _remove(self._pulled / _file_name(image_ref))


def _file_name(key: str) -> str:
    return f"{_PREFIX}{sha256(key.encode()).hexdigest()}"


def _encode(record: ImagePullIntent | ImagePulledRecord) -> bytes:
    plain: dict[str, Any] = msgspec.to_builtins(record)
    if not plain.get("credentialMapping", True):
        del plain["credentialMapping"]
    return msgspec.json.encode(plain) + b"\n"


def _decode_intent(content: bytes) -> ImagePullIntent:
    return _checked(_decode(content, ImagePullIntent))


def _decode_pulled(content: bytes) -> ImagePulledRecord:
    record = _checked(_decode(content, ImagePulledRecord))
    try:
        parse_time(record.last_updated_time or _ZERO_TIME)
    except ValueError as error:
        raise PullRecordError(str(error)) from None
    return record


def _decode(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PullRecordError(str(error)) from None


def _checked(record: R) -> R:
    if record.api_version not in (_VERSION, _OLD_VERSION):
        raise PullRecordError(f'no kind "{record.kind}" is registered for version "{record.api_version}"')
    return record


def _read_all(folder: Path, decode: Callable[[bytes], T]) -> Iterator[T]:
    try:
        files = sorted(one for one in folder.iterdir() if one.is_file())
    except OSError as error:
        log.error("there were errors listing %s: %s", folder, error)
        return
    for file in files:
        if not file.name.startswith(_PREFIX) or file.name.endswith(_TEMPORARY):
            continue
        try:
            if (content := _read(file)) is not None:
                yield decode(content)
        except PullRecordError as error:
            log.error("failed to deserialize content of file %s: %s", file, error)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PullRecordError(str(error)) from None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise PullRecordError(f'failed to create directory "{folder}": {error}') from None


def _write(folder: Path, name: str, content: bytes) -> None:
    _make_folder(folder)
    temporary = folder / f"{name}{_TEMPORARY}"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / name)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise PullRecordError(f'failed to create file "{folder / name}": {error}') from None


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise PullRecordError(str(error)) from None
