"""The mirror under a plan of faults: whatever goes wrong meanwhile, in the end every copy is right."""

from pathlib import Path

import pytest
import yaml
from mirror import NAME, SOURCE, wire

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.testing import Cluster, config_map, namespace

PLAN = yaml.safe_load(Path(__file__).with_name("chaos.yaml").read_text())


@pytest.mark.parametrize("seed", range(5))
def test_every_copy_is_right_in_the_end(cluster: Cluster, seed: int) -> None:
    cluster.add(config_map(NAME, {"colour": "0"}, SOURCE))
    cluster.start(wire)
    chaos = cluster.chaos({**PLAN, "seed": seed})
    for number in range(1, 11):
        cluster.add(namespace(f"shop-{number}", labels={"mirror": "yes"}))
        cluster.client.patch(ConfigMap, NAME, {"data": {"colour": str(number)}}, SOURCE)
        cluster.advance(minutes=1)
    assert chaos.hits > 20, "nothing went wrong, so nothing was tried"
    cluster.advance(minutes=20)  # calm again; who has failed often waits long before the next attempt
    copies = [cluster.client.get(ConfigMap, NAME, f"shop-{number}") for number in range(1, 11)]
    assert [copy.data["colour"] for copy in copies] == ["10"] * 10
