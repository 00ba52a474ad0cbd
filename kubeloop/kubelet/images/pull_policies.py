# SPDX-License-Identifier: Apache-2.0
"""Policies of `imagePullCredentialsVerificationPolicy`: which present images need credentials of the pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubeloop.kubelet.images.references import ImageNameError, without_tag_and_digest

NEVER_VERIFY = "NeverVerify"
NEVER_VERIFY_PRELOADED = "NeverVerifyPreloadedImages"
NEVER_VERIFY_ALLOWLISTED = "NeverVerifyAllowlistedImages"
ALWAYS_VERIFY = "AlwaysVerify"


@dataclass(frozen=True, slots=True)
class CredentialVerificationPolicy:
    """Decides whether a pod needs credentials for an image that is present."""

    name: str
    allowed: frozenset[str] = frozenset()  # names without tag and digest
    allowed_prefixes: tuple[str, ...] = ()

    def requires_verification(self, image: str, *, is_pulled_by_kubelet: bool) -> bool:
        """Return True if credentials are to be verified; `image` is the name in the pod."""
        if self.name == NEVER_VERIFY:
            return False
        if self.name == NEVER_VERIFY_PRELOADED:
            return is_pulled_by_kubelet
        return self.name == ALWAYS_VERIFY or not self._is_allowed(image)

    def _is_allowed(self, image: str) -> bool:
        try:
            name = without_tag_and_digest(image)
        except ImageNameError:
            name = image
        return name in self.allowed or name.startswith(self.allowed_prefixes)


def new_verification_policy(name: str, allowlist: Iterable[str]) -> CredentialVerificationPolicy:
    """Return the policy of a name; only one of them has an allowlist. Raises `ValueError`."""
    if name not in (NEVER_VERIFY, NEVER_VERIFY_PRELOADED, NEVER_VERIFY_ALLOWLISTED, ALWAYS_VERIFY):
        raise ValueError(f"unknown image pull credential verification policy: {name}")
    patterns = [parse_allowlist_pattern(one) for one in allowlist] if name == NEVER_VERIFY_ALLOWLISTED else []
    return CredentialVerificationPolicy(
        name,
        frozenset(text for text, is_prefix in patterns if not is_prefix),
        tuple(text for text, is_prefix in patterns if is_prefix),
    )


def parse_allowlist_pattern(pattern: str) -> tuple[str, bool]:
    """Return the name or prefix of a pattern, and True if it is a prefix. Raises `ValueError`."""
    if pattern != pattern.strip():
        raise ValueError(f"leading/trailing spaces are not allowed: {pattern}")
    is_prefix = pattern.endswith("/*")
    text = pattern.removesuffix("*") if is_prefix else pattern
    if not text:
        raise ValueError(f"the supplied pattern is too short: {pattern}")
    if "*" in text:
        raise ValueError(f"not a valid wildcard pattern, only patterns ending with '/*' are allowed: {pattern}")
    if is_prefix:
        if len(text) == 1:
            raise ValueError("at least registry hostname is required")
        return text, True
    try:
        name = without_tag_and_digest(text)
    except ImageNameError as error:
        raise ValueError(f"failed to parse as an image name: {error}") from None
    if name != text:
        raise ValueError(f"neither tag nor digest is accepted in an image reference: {pattern}")
    return text, False
