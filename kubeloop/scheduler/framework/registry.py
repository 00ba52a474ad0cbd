# SPDX-License-Identifier: Apache-2.0
"""Table of the built-in plugins with upstream's names, weights and order; other plugins come by entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final, NamedTuple

from kubeloop.scheduler.framework.plugin import Plugin

ENTRY_POINTS: Final = "kubeloop.scheduler.plugins"


class PluginLoadError(ValueError):
    """Raised for a plugin that cannot be loaded; the message is one sentence."""


class PluginEntry(NamedTuple):
    """Built-in plugin: its module and class, and whether it is needed before there are nodes and imports no numpy."""

    module: str
    class_name: str
    weight: int = 0
    early: bool = False
    gate: str = ""  # feature gate without which the plugin is not in the default profile


PLUGINS: Final[Mapping[str, PluginEntry]] = {
    "SchedulingGates": PluginEntry("scheduling_gates", "SchedulingGates", early=True),
    "PrioritySort": PluginEntry("priority_sort", "PrioritySort", early=True),
    "NodeName": PluginEntry("nodes.node_name", "NodeName"),
    "NodeUnschedulable": PluginEntry("nodes.node_unschedulable", "NodeUnschedulable"),
    "TaintToleration": PluginEntry("nodes.taint_toleration", "TaintToleration", 3),
    "NodeAffinity": PluginEntry("nodes.node_affinity", "NodeAffinity", 2),
    "NodePorts": PluginEntry("nodes.node_ports", "NodePorts"),
    "NodeResourcesFit": PluginEntry("node_resources_fit", "NodeResourcesFit", 1),
    "VolumeRestrictions": PluginEntry("volumes.volume_restrictions", "VolumeRestrictions"),
    "NodeVolumeLimits": PluginEntry("volumes.node_volume_limits", "NodeVolumeLimits"),
    "VolumeBinding": PluginEntry("volumes.volume_binding", "VolumeBinding"),
    "VolumeZone": PluginEntry("volumes.volume_zone", "VolumeZone"),
    "PodTopologySpread": PluginEntry("pod_topology_spread", "PodTopologySpread", 2),
    "InterPodAffinity": PluginEntry("inter_pod_affinity", "InterPodAffinity", 2),
    "DynamicResources": PluginEntry("dynamic_resources", "DynamicResources", 2, early=True),
    "DefaultPreemption": PluginEntry("default_preemption", "DefaultPreemption", early=True),
    "NodeResourcesBalancedAllocation": PluginEntry("balanced_allocation", "BalancedAllocation", 1),
    "ImageLocality": PluginEntry("image_locality", "ImageLocality", 1),
    "DefaultBinder": PluginEntry("default_binder", "DefaultBinder"),
    "NodeDeclaredFeatures": PluginEntry("nodes.node_declared_features", "NodeDeclaredFeatures"),
    "GangScheduling": PluginEntry("podgroups.gang_scheduling", "GangScheduling", early=True, gate="GenericWorkload"),
    "TopologyPlacementGenerator": PluginEntry(
        "podgroups.topology_placement", "TopologyPlacementGenerator", gate="TopologyAwareWorkloadScheduling"
    ),
    "PodGroupPodsCount": PluginEntry(
        "podgroups.pods_count", "PodGroupPodsCount", 1, gate="TopologyAwareWorkloadScheduling"
    ),
}


class PluginRegistry:
    """Plugins by name: built-in ones, those passed in, and those offered by installed packages."""

    def __init__(self, more: Mapping[str, type[Plugin]] | None = None) -> None:
        self._more = dict(more or {})

    def is_early(self, name: str) -> bool:
        """Return True if the plugin is needed before there are nodes."""
        row = PLUGINS.get(name)
        return row is None or row.early

    def plugin_class(self, name: str) -> type[Plugin]:
        """Return the class of a plugin. Raises `PluginLoadError`."""
        if name in self._more:
            return self._more[name]
        row = PLUGINS.get(name)
        if row is not None:
            kind: type[Plugin] = getattr(import_module(f"kubeloop.scheduler.plugins.{row.module}"), row.class_name)
            return kind
        from importlib.metadata import entry_points  # slow to import, so it is imported only when needed

        for offered in entry_points(group=ENTRY_POINTS, name=name):
            return _checked(name, offered.load())
        raise PluginLoadError(f"unknown scheduler plugin {name}")


def _checked(name: str, kind: object) -> type[Plugin]:
    if not isinstance(kind, type) or not issubclass(kind, Plugin):
        raise PluginLoadError(f"the plugin {name} is not a subclass of kubeloop.scheduler.framework.plugin.Plugin")
    return kind
