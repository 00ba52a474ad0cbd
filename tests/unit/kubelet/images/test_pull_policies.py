# SPDX-License-Identifier: Apache-2.0
"""Policies of credential verification."""

from __future__ import annotations

import pytest

from kubeloop.kubelet.images.pull_policies import new_verification_policy, parse_allowlist_pattern


@pytest.mark.parametrize(
    ("policy", "ours", "preloaded"),
    [
        ("NeverVerify", False, False),
        ("NeverVerifyPreloadedImages", True, False),
        ("NeverVerifyAllowlistedImages", True, True),
        ("AlwaysVerify", True, True),
    ],
)
def test_policies(policy: str, ours: bool, preloaded: bool) -> None:
    found = new_verification_policy(policy, ["r.io/other"])
    assert found.requires_verification("r.io/app:1", is_pulled_by_kubelet=True) is ours
    assert found.requires_verification("r.io/app:1", is_pulled_by_kubelet=False) is preloaded


@pytest.mark.parametrize(
    ("pattern", "image", "is_allowed"),
    [
        ("r.io/app", "r.io/app:1", True),
        ("r.io/app", "r.io/app@sha256:" + "a" * 64, True),
        ("r.io/app", "r.io/app2", False),
        ("r.io/app", "r.io/app/b", False),
        ("r.io/*", "r.io/a/b:2", True),
        ("r.io/a/*", "r.io/ab:2", False),
        ("r.io/*", "r.io/Broken", True),
        ("nginx", "docker.io/library/nginx", False),
    ],
)
def test_allowed_images(pattern: str, image: str, is_allowed: bool) -> None:
    policy = new_verification_policy("NeverVerifyAllowlistedImages", [pattern])
    assert policy.requires_verification(image, is_pulled_by_kubelet=False) is not is_allowed


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (" a", "leading/trailing spaces are not allowed:  a"),
        ("", "the supplied pattern is too short"),
        ("*", "not a valid wildcard pattern"),
        ("r.io/*/a", "not a valid wildcard pattern"),
        ("r.io/a*", "not a valid wildcard pattern"),
        ("/*", "at least registry hostname is required"),
        ("App", "failed to parse as an image name: repository name must be lowercase"),
        ("a:1", "neither tag nor digest is accepted in an image reference: a:1"),
    ],
)
def test_malformed_patterns(pattern: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("*", r"\*")):
        parse_allowlist_pattern(pattern)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown image pull credential verification policy: x"):
        new_verification_policy("x", ())
