# SPDX-License-Identifier: Apache-2.0
"""Plugins of one scheduler name, by extension point and in order; one process may run several profiles."""

from __future__ import annotations

import logging
import random
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kubeloop.scheduler.cache.pod_info import PodSignature
from kubeloop.scheduler.config.configuration import ProfileConfig
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.plugin import EXTENSION_POINTS, WILDCARD, ClusterEventWithHint, Plugin, implements
from kubeloop.scheduler.framework.registry import PluginRegistry
from kubeloop.scheduler.framework.status import EXTENDER
from kubeloop.scheduler.queue.cluster_event import ActionType

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.signature_results import SignatureResults, WeightedPlugin

log = logging.getLogger(__name__)

_REJECTING_METHODS = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")
_MAX_SIGNATURES = 256  # signatures with cached results


class Profile:
    """Plugins of one scheduler name; most are instantiated when the first node appears."""

    def __init__(self, config: ProfileConfig, registry: PluginRegistry, handle: Handle) -> None:
        self.name = config.scheduler_name
        self._config = config
        self._registry = registry
        self._handle = handle
        self.now = handle.clock.monotonic
        self.nominator = handle.nominator  # shared by all profiles
        self._plugins: dict[str, Plugin] = {}
        self._signature_results: OrderedDict[PodSignature, SignatureResults] = OrderedDict()

    def random(self) -> random.Random:
        """Return the random number generator of the clock."""
        return self._handle.clock.random()

    # Plugins needed before there are nodes; they import no numpy.

    @cached_property
    def queue_sort_plugin(self) -> Plugin:
        """Plugin that orders the queue."""
        return (self._at("queueSort", early=True) or self._at("queueSort"))[0]

    @cached_property
    def pre_enqueue_plugins(self) -> Sequence[Plugin]:
        """PreEnqueue plugins."""
        return self._at("preEnqueue", early=True)

    # Plugins needed once there are nodes.

    @cached_property
    def filter_plugins(self) -> Sequence[Plugin]:
        """Filter plugins, followed by those that implement only PreFilter."""
        return list(dict.fromkeys((*self._at("filter"), *self._at("preFilter"))))

    @cached_property
    def score_plugins(self) -> Sequence[WeightedPlugin]:
        """Score plugins with their weights."""
        from kubeloop.scheduler.cycle.signature_results import WeightedPlugin

        return [WeightedPlugin(one, self._config.weight(one.name)) for one in self._at("score")]

    @cached_property
    def post_filter_plugins(self) -> Sequence[Plugin]:
        """PostFilter plugins."""
        return self._at("postFilter")

    @cached_property
    def reserve_plugins(self) -> Sequence[Plugin]:
        """Reserve plugins."""
        return self._at("reserve")

    @cached_property
    def permit_plugins(self) -> Sequence[Plugin]:
        """Permit plugins."""
        return self._at("permit")

    @cached_property
    def pre_bind_plugins(self) -> Sequence[Plugin]:
        """PreBind plugins."""
        return self._at("preBind")

    @cached_property
    def bind_plugins(self) -> Sequence[Plugin]:
        """Bind plugins."""
        return self._at("bind")

    @cached_property
    def post_bind_plugins(self) -> Sequence[Plugin]:
        """PostBind plugins."""
        return self._at("postBind")

    # Plugins for pod groups.

    @cached_property
    def placement_feasible_plugins(self) -> Sequence[Plugin]:
        """PlacementFeasible plugins; the configuration has no list of them."""
        return [one for one in self._all() if implements(type(one), "placement_feasible")]

    @cached_property
    def placement_generate_plugins(self) -> Sequence[Plugin]:
        """PlacementGenerate plugins; only the first is used."""
        return self._at("placementGenerate")

    @cached_property
    def placement_score_plugins(self) -> Sequence[WeightedPlugin]:
        """PlacementScore plugins with their weights."""
        from kubeloop.scheduler.cycle.signature_results import WeightedPlugin

        return [WeightedPlugin(one, self._config.weight(one.name)) for one in self._at("placementScore")]

    @cached_property
    def pod_group_post_filter_plugins(self) -> Sequence[Plugin]:
        """PodGroupPostFilter plugins."""
        return self._at("podGroupPostFilter")

    @cached_property
    def events_by_resource(self) -> Mapping[str, list[tuple[str, ClusterEventWithHint]]]:
        """Registered cluster events of all plugins that can reject pods, by resource, with the plugin's name."""
        found = _by_resource(self._all())
        if self._handle.extenders:  # an extender's rejection may be resolved by any event
            found.setdefault(WILDCARD, []).append((EXTENDER, ClusterEventWithHint(WILDCARD, ActionType.ALL)))
        return found

    @cached_property
    def pre_enqueue_events_by_resource(self) -> Mapping[str, list[tuple[str, ClusterEventWithHint]]]:
        """Registered cluster events of the PreEnqueue plugins only, by resource."""
        return _by_resource(self.pre_enqueue_plugins)

    def load_plugins(self) -> None:
        """Instantiate all plugins."""
        for plugin in self._all():
            log.debug("%s has %s", self.name, plugin.name)

    def signature_results(self, template: PodSignature) -> SignatureResults:
        """Return the cached filter and score results for pods of a signature."""
        found = self._signature_results.get(template)
        if found is None:
            from kubeloop.scheduler.cycle.signature_results import SignatureResults

            found = self._signature_results[template] = SignatureResults(
                self.filter_plugins, self.score_plugins, template
            )
            if len(self._signature_results) > _MAX_SIGNATURES:
                self._signature_results.popitem(last=False)
        else:
            self._signature_results.move_to_end(template)
        return found

    # Instantiation of plugins.

    def _at(self, point: str, early: bool = False) -> list[Plugin]:
        names = [name for name in self._config.plugins_at(point) if not early or self._registry.is_early(name)]
        found = [self._plugin(name) for name in names]
        return [one for one in found if implements(type(one), EXTENSION_POINTS[point])]

    def _all(self) -> list[Plugin]:
        return [self._plugin(name) for name in self._config.plugin_names]

    def _plugin(self, name: str) -> Plugin:
        made = self._plugins.get(name)
        if made is None:
            args: Mapping[str, Any] = self._config.args.get(name, {})
            made = self._plugins[name] = self._registry.plugin_class(name)(self._handle, args)
        return made


def _by_resource(plugins: Iterable[Plugin]) -> dict[str, list[tuple[str, ClusterEventWithHint]]]:
    """Group the registered events of plugins that can reject a pod by resource."""
    found: dict[str, list[tuple[str, ClusterEventWithHint]]] = {}
    for plugin in plugins:
        if any(implements(type(plugin), method) for method in _REJECTING_METHODS):
            for one in plugin.events_to_register():
                found.setdefault(one.resource, []).append((plugin.name, one))
    return found
