# SPDX-License-Identifier: Apache-2.0
"""AppArmor profiles in legacy annotations, one for each container."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kubeloop.api.generated.core_v1 import AppArmorProfile

ANNOTATION_PREFIX: Final = "container.apparmor.security.beta.kubernetes.io/"
_LONGEST_PROFILE: Final = 4095


@lru_cache(maxsize=256)
def profile_of(annotation: str) -> AppArmorProfile | None:
    """Return the profile that an annotation specifies, cached by text; None if it specifies none."""
    if annotation == "unconfined":
        return AppArmorProfile(type="Unconfined")
    if annotation == "runtime/default":
        return AppArmorProfile(type="RuntimeDefault")
    kind, _, name = annotation.partition("/")
    if kind != "localhost" or not name or name != name.strip() or len(name) > _LONGEST_PROFILE:
        return None
    return AppArmorProfile(type="Localhost", localhost_profile=name)
