"""The literal table of plugins, with upstream's names, weights and order; others' plugins come by entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final, NamedTuple

from kubeloop.scheduler.framework.plugin import Plugin

ENTRY_POINTS: Final = "kubeloop.scheduler.plugins"


class UnusablePlugin(ValueError):
    """A plugin that can't be had; the message is one sentence for a person."""


class Row(NamedTuple):
    """A plugin of ours: where it is, and whether it is needed before there are nodes, so that it imports no numpy."""

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
    """Plugins by name: ours, those that are handed in, and those that installed packages offer."""

    def __init__(self, more: Mapping[str, type[Plugin]] | None = None) -> None:
        self._more = dict(more or {})

    def is_early(self, name: str) -> bool:
        row = PLUGINS.get(name)
        return row is None or row.early

    def kind(self, name: str) -> type[Plugin]:
        """The class of a plugin. Raises `UnusablePlugin`."""
        if name in self._more:
            return self._more[name]
        row = PLUGINS.get(name)
        if row is not None:
            kind: type[Plugin] = getattr(import_module(f"kubeloop.scheduler.plugins.{row.module}"), row.kind)
            return kind
        from importlib.metadata import entry_points  # takes longer to load than all of ours

        for offered in entry_points(group=ENTRY_POINTS, name=name):
            return _checked(name, offered.load())
        raise UnusablePlugin(f"there is no scheduler plugin named {name}")


def _checked(name: str, kind: object) -> type[Plugin]:
    if not isinstance(kind, type) or not issubclass(kind, Plugin):
        raise UnusablePlugin(f"the plugin {name} is no class derived from kubeloop.scheduler.framework.plugin.Plugin")
    return kind
