# SPDX-License-Identifier: Apache-2.0
"""Matches calls to an API server by verb, resource and name, for faults that concern only some calls.

Chaos plans, the faults of test clusters and the checks after a run select calls by the same rules.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
VERBS: Final = WRITES | {"get", "list", "watch", "read", "write"}


@dataclass(frozen=True, slots=True)
class CallMatcher:
    """Selectors of calls; an empty one matches any call."""

    verbs: Collection[str] = ()  # also `read` and `write`
    resources: Collection[str] = ()  # plural, or with the group: deployments.apps
    names: Collection[str] = ()

    def __str__(self) -> str:
        verbs, resources = "|".join(self.verbs) or "any verb", "|".join(self.resources) or "any resource"
        return f"{verbs} of {resources}" + (f" named {'|'.join(self.names)}" if self.names else "")

    def matches(self, verb: str, resource: str, name: str = "") -> bool:
        """Return True if all selectors match a call; `resource` includes the group."""
        return (
            (not self.verbs or verb in self.verbs or _kind_of(verb) in self.verbs)
            and self.matches_resource(resource)
            and (not self.names or name in self.names)
        )

    def matches_resource(self, resource: str) -> bool:
        """Return True if the selector of resources matches; `resource` includes the group."""
        return not self.resources or resource in self.resources or resource.partition(".")[0] in self.resources


def _kind_of(verb: str) -> str:
    return "write" if verb in WRITES else "read"
