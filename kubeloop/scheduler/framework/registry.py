"""Table of the built-in plugins with upstream's names, weights and order; other plugins come by entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final, NamedTuple

from kubeloop.scheduler.framework.plugin import Plugin

ENTRY_POINTS: Final = "kubeloop.scheduler.plugins"


class UnusablePlugin(ValueError):
    """Raised for a plugin that cannot be loaded; the message is one sentence."""


class Row(NamedTuple):
    """Built-in plugin: its module and class, and whether it is needed before there are nodes and imports no numpy."""

    module: str
    kind: str
    weight: int = 0
    early: bool = False


PLUGINS: Final[Mapping[str, Row]] = {
    "SchedulingGates": Row("scheduling_gates", "SchedulingGates", early=True),
    "PrioritySort": Row("priority_sort", "PrioritySort", early=True),
    "NodeName": Row("nodes.node_name", "NodeName"),
    "NodeUnschedulable": Row("nodes.node_unschedulable", "NodeUnschedulable"),
    "TaintToleration": Row("nodes.taint_toleration", "TaintToleration", 3),
    "NodeAffinity": Row("nodes.node_affinity", "NodeAffinity", 2),
    "NodePorts": Row("nodes.node_ports", "NodePorts"),
    "NodeResourcesFit": Row("node_resources_fit", "NodeResourcesFit", 1),
    "VolumeRestrictions": Row("volumes.volume_restrictions", "VolumeRestrictions"),
    "NodeVolumeLimits": Row("volumes.node_volume_limits", "NodeVolumeLimits"),
    "VolumeBinding": Row("volumes.volume_binding", "VolumeBinding"),
    "VolumeZone": Row("volumes.volume_zone", "VolumeZone"),
    "PodTopologySpread": Row("pod_topology_spread", "PodTopologySpread", 2),
    "InterPodAffinity": Row("inter_pod_affinity", "InterPodAffinity", 2),
    "DynamicResources": Row("dynamic_resources", "DynamicResources", 2, early=True),
    "DefaultPreemption": Row("default_preemption", "DefaultPreemption", early=True),
    "NodeResourcesBalancedAllocation": Row("balanced_allocation", "BalancedAllocation", 1),
    "ImageLocality": Row("image_locality", "ImageLocality", 1),
    "DefaultBinder": Row("default_binder", "DefaultBinder"),
    "NodeDeclaredFeatures": Row("nodes.node_declared_features", "NodeDeclaredFeatures"),
}


class Registry:
    """Plugins by name: built-in ones, those passed in, and those offered by installed packages."""

    def __init__(self, more: Mapping[str, type[Plugin]] | None = None) -> None:
        self._more = dict(more or {})

    def is_early(self, name: str) -> bool:
        """Return True if the plugin is needed before there are nodes."""
        row = PLUGINS.get(name)
        return row is None or row.early

    def kind(self, name: str) -> type[Plugin]:
        """Return the class of a plugin. Raises `UnusablePlugin`."""
        if name in self._more:
            return self._more[name]
        row = PLUGINS.get(name)
        if row is not None:
            kind: type[Plugin] = getattr(import_module(f"kubeloop.scheduler.plugins.{row.module}"), row.kind)
            return kind
        from importlib.metadata import entry_points  # slow to import, so it is imported only when needed

        for offered in entry_points(group=ENTRY_POINTS, name=name):
            return _checked(name, offered.load())
        raise UnusablePlugin(f"there is no scheduler plugin named {name}")


def _checked(name: str, kind: object) -> type[Plugin]:
    if not isinstance(kind, type) or not issubclass(kind, Plugin):
        raise UnusablePlugin(f"the plugin {name} is no class derived from kubeloop.scheduler.framework.plugin.Plugin")
    return kind
