# SPDX-License-Identifier: Apache-2.0
"""Cloud controller manager: the provider protocol, four controllers that use it, and their table.

kubeloop.cli ── --controllers ──▶ select ──▶ wire(Context) ──▶ controller ──▶ runtime.Manager supervises it
                                                   │ instances, load balancers, routes
providers: local, aws, external ──▶ Provider ──────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeloop.cloud.context import Wire


@dataclass(frozen=True, slots=True)
class CloudControllerDescriptor:
    """Describes one controller: its names, its module and its service account."""

    name: str
    alias: str  # upstream's name for it before 1.28
    module: str  # within this package
    account: str  # the service account in kube-system whose permissions it needs

    def wire(self) -> Wire:
        """Import the controller's module and return its `wire` function."""
        wire: Wire = import_module(f"{__name__}.{self.module}").wire
        return wire


CONTROLLERS: tuple[CloudControllerDescriptor, ...] = (
    CloudControllerDescriptor("cloud-node-controller", "cloud-node", "cloud_node", "node-controller"),
    CloudControllerDescriptor(
        "cloud-node-lifecycle-controller", "cloud-node-lifecycle", "cloud_node_lifecycle", "node-controller"
    ),
    CloudControllerDescriptor("service-lb-controller", "service", "service_lb", "service-controller"),
    CloudControllerDescriptor("node-route-controller", "route", "node_route", "route-controller"),
)


class InvalidCloudControllers(ValueError):
    """Raised for an invalid `--controllers` value; the message is one sentence for the user."""


def select(wanted: Sequence[str]) -> tuple[CloudControllerDescriptor, ...]:
    """Return the selected controllers by upstream's rules: the first entry that names a controller wins, then `*`."""
    words = [_canonical(word) for word in wanted]
    return tuple(one for one in CONTROLLERS if _is_enabled(one, words))


def _canonical(word: str) -> str:
    """Replace a controller's alias by its canonical name and keep a leading `-`."""
    if word == "*":
        return word
    sign, name = ("-", word[1:]) if word.startswith("-") else ("", word)
    for one in CONTROLLERS:
        if name in (one.name, one.alias):
            return sign + one.name
    known = ", ".join(sorted(one.name for one in CONTROLLERS))
    raise InvalidCloudControllers(f'"{name}" is not in the list of known controllers: {known}')


def _is_enabled(one: CloudControllerDescriptor, words: Sequence[str]) -> bool:
    for word in words:
        if word in (one.name, f"-{one.name}"):
            return word == one.name
    return "*" in words
