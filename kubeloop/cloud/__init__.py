"""What a cloud does for a cluster: a provider's protocol, four loops that use it, and the literal table of them.

kubeloop.cli ── which are wanted? ──▶ select ──▶ wire(Context) ──▶ Loop ──▶ runtime.Manager keeps it running
                                                    │ instances, load balancers, routes
providers: local, aws, one's own ──▶ Provider ──────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeloop.cloud.context import Wire


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One loop: how it is called, and as whom it works."""

    name: str
    alias: str  # upstream's name for it before 1.28
    module: str  # within this package
    account: str  # the service account whose rights it needs, in kube-system

    def wire(self) -> Wire:
        """The function that makes it."""
        wire: Wire = import_module(f"{__name__}.{self.module}").wire
        return wire


CONTROLLERS: tuple[Descriptor, ...] = (
    Descriptor("cloud-node-controller", "cloud-node", "cloud_node", "node-controller"),
    Descriptor("cloud-node-lifecycle-controller", "cloud-node-lifecycle", "cloud_node_lifecycle", "node-controller"),
    Descriptor("service-lb-controller", "service", "service_lb", "service-controller"),
    Descriptor("node-route-controller", "route", "node_route", "route-controller"),
)


class UnusableChoice(ValueError):
    """The wanted loops cannot be had; the message is one sentence for a person."""


def select(wanted: Sequence[str]) -> tuple[Descriptor, ...]:
    """The loops that are wanted, by upstream's rules: the first word about a loop counts, then `*`."""
    words = [_canonical(word) for word in wanted]
    return tuple(one for one in CONTROLLERS if _is_wanted(one, words))


def _canonical(word: str) -> str:
    """A word with its alias resolved."""
    if word == "*":
        return word
    sign, name = ("-", word[1:]) if word.startswith("-") else ("", word)
    for one in CONTROLLERS:
        if name in (one.name, one.alias):
            return sign + one.name
    known = ", ".join(sorted(one.name for one in CONTROLLERS))
    raise UnusableChoice(f'"{name}" is not in the list of known controllers: {known}')


def _is_wanted(one: Descriptor, words: Sequence[str]) -> bool:
    for word in words:
        if word in (one.name, f"-{one.name}"):
            return word == one.name
    return "*" in words
