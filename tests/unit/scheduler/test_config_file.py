"""KubeSchedulerConfiguration: what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.scheduler.config import ProfileConfig
from kubeloop.scheduler.config_file import UnusableConfig, config_of, parse

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def profile(**said: Any) -> ProfileConfig:
    (found,) = config_of(parse({**HEAD, "profiles": [said]})).profiles
    return found


def test_without_profiles_there_is_upstreams_default() -> None:
    (found,) = config_of(parse(HEAD)).profiles
    assert found.scheduler_name == "default-scheduler"
    assert found.weight("TaintToleration") == 3
    assert found.names[:3] == ("SchedulingGates", "PrioritySort", "NodeName")


def test_a_plugin_is_switched_off_everywhere() -> None:
    found = profile(plugins={"multiPoint": {"disabled": [{"name": "ImageLocality"}]}})
    assert "ImageLocality" not in found.at("score")
    assert "NodeName" in found.at("filter")


def test_a_plugin_is_switched_off_at_one_point() -> None:
    found = profile(plugins={"score": {"disabled": [{"name": "NodeResourcesFit"}]}})
    assert "NodeResourcesFit" not in found.at("score")
    assert "NodeResourcesFit" in found.at("filter")


def test_a_plugin_that_is_named_at_one_point_comes_first_there() -> None:
    found = profile(plugins={"filter": {"enabled": [{"name": "NodePorts"}]}})
    assert found.at("filter")[0] == "NodePorts"
    assert found.at("score")[0] != "NodePorts"


def test_a_plugin_of_ones_own_is_asked_where_it_is_named() -> None:
    found = profile(plugins={"score": {"enabled": [{"name": "Mine", "weight": 7}]}})
    assert found.at("score")[-1] == "Mine"
    assert found.weight("Mine") == 7
    assert "Mine" not in found.at("filter")
    assert "Mine" in found.names


def test_all_off_and_one_on() -> None:
    found = profile(plugins={"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality"}]}})
    assert found.at("score") == ("ImageLocality",)


def test_arguments_reach_their_plugin() -> None:
    args = {"apiVersion": HEAD["apiVersion"], "kind": "InterPodAffinityArgs", "hardPodAffinityWeight": 5}
    found = profile(pluginConfig=[{"name": "InterPodAffinity", "args": args}])
    assert found.args == {"InterPodAffinity": {"hardPodAffinityWeight": 5}}


def test_backoffs() -> None:
    found = config_of(parse({**HEAD, "podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 0}), 60.0)
    assert (found.patience.first, found.patience.longest, found.patience.unschedulable) == (2.0, 0.0, 60.0)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"kind": "Other"}, "is not"),
        ({"unknown": 1}, "unknown"),
        ({"extenders": [{}]}, "extenders"),
        ({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]}, "same schedulerName"),
        ({"profiles": [{"plugins": {"nowhere": {}}}]}, "no extension point nowhere"),
    ],
)
def test_what_can_not_be_followed_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(UnusableConfig, match=why):
        config_of(parse({**HEAD, **said}))
