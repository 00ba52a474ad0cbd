# SPDX-License-Identifier: Apache-2.0
"""Tests of KubeSchedulerConfiguration."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kubeloop.scheduler.config.configuration import ProfileConfig
from kubeloop.scheduler.config.file import SchedulerConfigError, parse_config, to_scheduler_config

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


SORT = {"enabled": [{"name": "PrioritySort"}]}


def profile(**said: Any) -> ProfileConfig:
    (found,) = to_scheduler_config(parse_config({**HEAD, "profiles": [said]})).profiles
    return found


def test_default_profile_matches_upstream() -> None:
    (found,) = to_scheduler_config(parse_config(HEAD)).profiles
    assert found.scheduler_name == "default-scheduler"
    assert found.weight("TaintToleration") == 3
    assert found.plugin_names[:3] == ("SchedulingGates", "PrioritySort", "NodeName")


def test_plugin_is_disabled_at_all_extension_points() -> None:
    found = profile(plugins={"multiPoint": {"disabled": [{"name": "ImageLocality"}]}})
    assert "ImageLocality" not in found.plugins_at("score")
    assert "NodeName" in found.plugins_at("filter")


def test_plugin_is_disabled_at_one_extension_point() -> None:
    found = profile(plugins={"score": {"disabled": [{"name": "NodeResourcesFit"}]}})
    assert "NodeResourcesFit" not in found.plugins_at("score")
    assert "NodeResourcesFit" in found.plugins_at("filter")


def test_plugin_enabled_at_one_point_comes_first() -> None:
    found = profile(plugins={"filter": {"enabled": [{"name": "NodePorts"}]}})
    assert found.plugins_at("filter")[0] == "NodePorts"
    assert found.plugins_at("score")[0] != "NodePorts"


def test_custom_plugin_is_called_where_enabled() -> None:
    found = profile(plugins={"score": {"enabled": [{"name": "Mine", "weight": 7}]}})
    assert found.plugins_at("score")[-1] == "Mine"
    assert found.weight("Mine") == 7
    assert "Mine" not in found.plugins_at("filter")
    assert "Mine" in found.plugin_names


def test_all_disabled_and_one_enabled() -> None:
    found = profile(plugins={"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality"}]}})
    assert found.plugins_at("score") == ("ImageLocality",)


def test_arguments_reach_their_plugin() -> None:
    args = {"apiVersion": HEAD["apiVersion"], "kind": "InterPodAffinityArgs", "hardPodAffinityWeight": 5}
    found = profile(pluginConfig=[{"name": "InterPodAffinity", "args": args}])
    assert found.args == {"InterPodAffinity": {"hardPodAffinityWeight": 5}}


def test_backoffs() -> None:
    found = to_scheduler_config(parse_config({**HEAD, "podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 4}), 60.0)
    assert (
        found.queue_timeouts.pod_initial_backoff,
        found.queue_timeouts.pod_max_backoff,
        found.queue_timeouts.pod_max_in_unschedulable,
    ) == (2.0, 4.0, 60.0)


def test_resources_ignored_by_scheduler_are_not_counted() -> None:
    resources = [{"name": "example.com/a", "ignoredByScheduler": True}, {"name": "example.com/b"}]
    extender = {"urlPrefix": "http://there", "filterVerb": "filter", "managedResources": resources}
    found = to_scheduler_config(parse_config({**HEAD, "extenders": [extender]}))
    assert found.profiles[0].args == {"NodeResourcesFit": {"ignoredResources": ["example.com/a"]}}
    assert found.extenders[0].filter_verb == "filter"


def with_args(plugin: str, **args: Any) -> dict[str, Any]:
    return {"profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}]}


ARGS = "profiles[0].pluginConfig[0].args"
STRATEGY = f"{ARGS}.scoringStrategy"
POINTS = [{"utilization": 50, "score": 5}, {"utilization": 20, "score": 11}]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"kind": "Other"}, "is not"),
        ({"unknown": 1}, "unknown"),
        ({"parallelism": 0}, "parallelism: Invalid value: 0: should be an integer value greater than zero"),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst: Invalid value: -1: must be non-negative"),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"),
        ({"podMaxBackoffSeconds": 0}, "must be greater than or equal to PodInitialBackoffSeconds"),
        (
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
            'profiles[1].schedulerName: Duplicate value: "profiles[0].schedulerName"',
        ),
        ({"profiles": [{"schedulerName": "a"}, {}]}, "profiles[1].schedulerName: Required value"),
        ({"profiles": [{"plugins": {"nowhere": {}}}]}, "unknown extension point nowhere"),
        (
            {"profiles": [{"schedulerName": "a", "plugins": {"queueSort": SORT}}, {"schedulerName": "b"}]},
            "must be the same for all profiles",
        ),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "EBSLimits"}]}}}]},
            'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version',
        ),
        (
            {"profiles": [{"pluginConfig": [{"name": "Mine"}, {"name": "Mine"}]}]},
            'profiles[0].pluginConfig[1]: Duplicate value: "Mine"',
        ),
        (with_args("NodeResourcesFit", unknown=1), "unknown field"),
        (with_args("NodeResourcesFit", kind="OtherArgs"), "has to match plugin args"),
        (with_args("DefaultPreemption", minCandidateNodesPercentage=101), "not in valid range [0, 100]"),
        (
            with_args("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
            "cannot be zero at the same time as minCandidateNodesAbsolute",
        ),
        (
            with_args("InterPodAffinity", hardPodAffinityWeight=101),
            f"{ARGS}.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            with_args("NodeAffinity", addedAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {}}),
            "must have at least one node selector term",
        ),
        (
            with_args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu", "weight": 2}]),
            f"{ARGS}.resources[0].weight: Invalid value: 2: must be 1",
        ),
        (
            with_args("NodeResourcesFit", scoringStrategy={"type": "Other"}),
            f'{STRATEGY}.type: Unsupported value: "Other": supported values: "LeastAllocated"',
        ),
        (
            with_args("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio"}),
            f"{STRATEGY}.requestedToCapacityRatio: Required value: must be specified when type is",
        ),
        (
            with_args("NodeResourcesFit", scoringStrategy={"requestedToCapacityRatio": {}}),
            "Forbidden: must be nil when type is not RequestedToCapacityRatio",
        ),
        (with_args("NodeResourcesFit", ignoredResourceGroups=["a/b"]), "resource group name can't contain '/'"),
        (with_args("VolumeBinding", shape=POINTS), "values must be sorted in increasing order"),
        (with_args("VolumeBinding", shape=POINTS), "shape[1].score: Invalid value: 11: not in valid range [0, 10]"),
        (with_args("VolumeBinding", bindTimeoutSeconds=-1), "should not be a negative value"),
        (with_args("DynamicResources", bindingTimeout="1ms"), "must be at least 1 second"),
        (with_args("PodTopologySpread", defaultingType="Mine"), 'supported values: "System", "List"'),
        (
            with_args("PodTopologySpread", defaultConstraints=[{"maxSkew": 1, "topologyKey": "zone"}]),
            "when .defaultConstraints are not empty",
        ),
        (
            with_args("PodTopologySpread", defaultingType="List", defaultConstraints=[{"topologyKey": "zone"}]),
            "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
        ),
        ({"extenders": [{}]}, "urlPrefix"),
        ({"extenders": [{"urlPrefix": "ftp://there"}]}, "extenders[0]:"),
        (
            {"extenders": [{"urlPrefix": "http://there", "prioritizeVerb": "like"}]},
            "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        ),
        (
            {"extenders": [{"urlPrefix": "http://there", "bindVerb": "bind"}] * 2},
            "only one extender can implement bind",
        ),
        (
            {"extenders": [{"urlPrefix": "http://there", "managedResources": [{"name": "cpu"}]}]},
            "is an invalid extended resource name",
        ),
    ],
)
def test_invalid_configuration_is_rejected(said: dict[str, Any], why: str) -> None:
    with pytest.raises(SchedulerConfigError, match=re.escape(why)):
        to_scheduler_config(parse_config({**HEAD, **said}))
