# SPDX-License-Identifier: Apache-2.0
"""One-line notation of RBAC rules: `verbs: resources @groups =names`, or `verbs: url paths`.

A line without groups is for the core group, which lists of groups call `core`. Examples: `get list: pods nodes`,
`update: deployments/status @apps,extensions`, `get: configmaps =cluster-info`, `get: url /healthz /version`.
"""

from __future__ import annotations

from functools import cache

from kubeloop.api.generated.rbac_v1 import PolicyRule

READ = "get list watch"
WRITE = "create delete deletecollection patch update"
ALL = "create delete deletecollection get list patch update watch"
EVENTS = "create patch update: events @core,events.k8s.io"


@cache
def parse_rule(line: str) -> PolicyRule:
    """Parse a line into a PolicyRule; equal lines share one rule."""
    verbs, _, rest = line.partition(": ")
    words = rest.split()
    if words[0] == "url":
        return PolicyRule(verbs=tuple(verbs.split()), non_resource_urls=tuple(words[1:]))
    groups: tuple[str, ...] = ("",)
    names: tuple[str, ...] = ()
    resources = []
    for word in words:
        if word[0] == "@":
            groups = tuple("" if group == "core" else group for group in word[1:].split(","))
        elif word[0] == "=":
            names = tuple(word[1:].split(","))
        else:
            resources.append(word)
    return PolicyRule(verbs=tuple(verbs.split()), api_groups=groups, resources=tuple(resources), resource_names=names)


def parse_rules(lines: tuple[str, ...]) -> tuple[PolicyRule, ...]:
    """Parse several lines."""
    return tuple(parse_rule(line) for line in lines)
