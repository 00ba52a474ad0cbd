# SPDX-License-Identifier: Apache-2.0
"""Default image pull policy, derived from the image's name: Always for mutable tags.

The grammar is that of registries: an optional domain, a lower-case path, a tag, a digest. A name that does not
match it is left to validation and counts as immutable.
"""

from __future__ import annotations

import re
from functools import lru_cache

_PATH_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DOMAIN_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?P<name>{_DOMAIN}/{_PATH_PART}(?:/{_PATH_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}))?",
    re.ASCII,
)
_BARE_DIGEST = re.compile(r"[a-f0-9]{64}")
_LONGEST_NAME = 255


@lru_cache(maxsize=4096)
def pull_policy_of(image: str) -> str:
    """Return `Always` for an explicit or implied `:latest`, else `IfNotPresent`."""
    if _BARE_DIGEST.fullmatch(image):
        return "IfNotPresent"
    match = _REFERENCE.fullmatch(_with_domain(image))
    if match is None or len(match["name"]) > _LONGEST_NAME:
        return "IfNotPresent"
    implied = match["tag"] is None and match["digest"] is None
    return "Always" if implied or match["tag"] == "latest" else "IfNotPresent"


def _with_domain(image: str) -> str:
    first, slash, _ = image.partition("/")
    looks_like_domain = "." in first or ":" in first or first == "localhost" or first != first.lower()
    return image if slash and looks_like_domain else "docker.io/" + image
