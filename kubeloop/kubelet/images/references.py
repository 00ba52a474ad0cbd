# SPDX-License-Identifier: Apache-2.0
"""Image references as the library distribution/reference parses them: repository, tag and digest. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

_DEFAULT_DOMAIN, _LEGACY_DOMAIN, _LOCALHOST = "docker.io", "index.docker.io", "localhost"
_OFFICIAL = "library/"
_DEFAULT_TAG = "latest"
_MOST_NAME_CHARACTERS = 255
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}

_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_NAME = rf"(?:{_DOMAIN}/)?{_PATH}(?:/{_PATH})*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(rf"({_NAME})(?::({_TAG}))?(?:@({_DIGEST}))?")
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


class ImageNameError(ValueError):
    """Raised for a malformed image name."""


class ImageReference(NamedTuple):
    """Parts of an image name; tag and digest are empty if it has none."""

    name: str
    tag: str
    digest: str


def parse_reference(text: str) -> ImageReference:
    """Split an image name as it is written. Raises `ImageNameError`."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        if not text:
            raise ImageNameError("repository name must have at least one component")
        if _REFERENCE.fullmatch(text.lower()) is not None:
            raise ImageNameError("repository name must be lowercase")
        raise ImageNameError("invalid reference format")
    name, tag, digest = found.group(1), found.group(2) or "", found.group(3) or ""
    if len(name) > _MOST_NAME_CHARACTERS:
        raise ImageNameError(f"repository name must not be more than {_MOST_NAME_CHARACTERS} characters")
    if digest:
        _check_digest(digest)
    return ImageReference(name, tag, digest)


def parse_image_name(image: str) -> ImageReference:
    """Return the full name of an image, with its registry, and its tag, `latest` without any and without a digest.

    Raises `ImageNameError`.
    """
    try:
        if _IDENTIFIER.fullmatch(image):
            raise ImageNameError(f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings")
        domain, rest = _split_domain(image)
        remote = rest.partition(":")[0]
        if remote.lower() != remote:
            raise ImageNameError(f"invalid reference format: repository name ({remote}) must be lowercase")
        name, tag, digest = parse_reference(f"{domain}/{rest}")
    except ImageNameError as error:
        raise ImageNameError(f'couldn\'t parse image name "{image}": {error}') from None
    return ImageReference(name, tag or ("" if digest else _DEFAULT_TAG), digest)


def with_default_tag(image: str) -> str:
    """Return an image name with the tag `latest`, unless it has a tag or a digest. Raises `ImageNameError`."""
    _, tag, digest = parse_image_name(image)
    return image if digest or image.endswith(f":{tag}") else f"{image}:{tag}"


def repository_of(image: str) -> str:
    """Return the registry and path of an image, which credentials are matched with. Raises `ImageNameError`."""
    return parse_image_name(image).name


def without_tag_and_digest(image: str) -> str:
    """Return an image name as it is written, without tag and digest. Raises `ImageNameError`."""
    return parse_reference(image).name


def _split_domain(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    if not slash:
        return _DEFAULT_DOMAIN, f"{_OFFICIAL}{image}"
    if first == _LEGACY_DOMAIN:
        first = _DEFAULT_DOMAIN
    elif first != _LOCALHOST and "." not in first and ":" not in first and first.lower() == first:
        first, rest = _DEFAULT_DOMAIN, image
    if first == _DEFAULT_DOMAIN and "/" not in rest:
        rest = f"{_OFFICIAL}{rest}"
    return first, rest


def _check_digest(digest: str) -> None:
    algorithm, _, value = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None:
        raise ImageNameError("unsupported digest algorithm")
    if len(value) != length:
        raise ImageNameError("invalid checksum digest length")
    if value.lower() != value:
        raise ImageNameError("invalid checksum digest format")
