# SPDX-License-Identifier: Apache-2.0
"""Image references, as distribution/reference parses them."""

from __future__ import annotations

import pytest

from kubeloop.kubelet.images.references import (
    ImageNameError,
    parse_reference,
    repository_of,
    with_default_tag,
    without_tag_and_digest,
)

SHA = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("a", "a:latest"),
        ("a:1", "a:1"),
        ("h:5000/a", "h:5000/a:latest"),
        (f"a@{SHA}", f"a@{SHA}"),
        (f"a:1@{SHA}", f"a:1@{SHA}"),
    ],
)
def test_default_tag(image: str, expected: str) -> None:
    assert with_default_tag(image) == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nginx:1", "docker.io/library/nginx"),
        ("me/app", "docker.io/me/app"),
        (f"docker.io/nginx@{SHA}", "docker.io/library/nginx"),
        ("index.docker.io/me/app:1", "docker.io/me/app"),
        ("localhost/app:1", "localhost/app"),
        ("h:5000/a/b:1", "h:5000/a/b"),
        ("[::1]:5000/a", "[::1]:5000/a"),
        ("Host/a", "Host/a"),
    ],
)
def test_repositories(image: str, expected: str) -> None:
    assert repository_of(image) == expected


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        ("", 'couldn\'t parse image name "": invalid reference format'),
        ("a b", "invalid reference format"),
        ("me/App", r"invalid reference format: repository name \(me/App\) must be lowercase"),
        ("a" * 64, "cannot specify 64-byte hexadecimal strings"),
        ("a:", "invalid reference format"),
        ("a@sha256:" + "a" * 63, "invalid checksum digest length"),
        ("a@sha1:" + "a" * 40, "unsupported digest algorithm"),
        ("a@sha256:" + "A" * 64, "invalid checksum digest format"),
        ("r.io/" + "a" * 256, "must not be more than 255 characters"),
    ],
)
def test_malformed_names(image: str, problem: str) -> None:
    with pytest.raises(ImageNameError, match=problem):
        with_default_tag(image)


def test_names_are_cut_as_they_are_written() -> None:
    assert without_tag_and_digest(f"nginx:1@{SHA}") == "nginx"
    assert without_tag_and_digest("h:5000/a:1") == "h:5000/a"
    assert parse_reference(f"h:5000/a:1@{SHA}") == ("h:5000/a", "1", SHA)
    with pytest.raises(ImageNameError, match="repository name must be lowercase"):
        without_tag_and_digest("App")
