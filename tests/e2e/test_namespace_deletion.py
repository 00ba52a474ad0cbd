# SPDX-License-Identifier: Apache-2.0
"""The real program: a namespace with something of every kind in it deletes wholly, and takes along what hangs on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.all_kinds import AROUND, IN_A_NAMESPACE
from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.plane import Plane, call_on, eventually
from tests.skips import needs_kubectl

pytestmark = needs_kubectl()

# Which only a node may request, with a proof of possession of its pod's key.
NOT_MADE = {"podcertificaterequests.certificates.k8s.io"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    plane = Plane(
        tmp_path_factory.mktemp("namespaces"),
        "--ephemeral",
        "--nodes",
        "1",
        "--controller-manager-port",
        "0",
        "--scheduler-port",
        "0",
    )
    plane.start()
    yield plane
    plane.close()


@pytest.fixture
def kubectl(plane: Plane, kubectl_home: Path) -> Kubectl:
    return Kubectl(plane.kubeconfig, "shop", kubectl_home)


class Contents:
    """List the content of the namespace over one connection."""

    def __init__(self, plane: Plane) -> None:
        self._connection = plane.connection()
        groups = self._get("/apis")["groups"]
        served = {f".{one['name']}": f"/apis/{one['preferredVersion']['groupVersion']}" for one in groups}
        self._paths = {
            one["name"] + group: f"{path}/namespaces/shop/{one['name']}"
            for group, path in {"": "/api/v1", **served}.items()
            for one in self._get(path)["resources"]
            if one["namespaced"] and {"list", "create"} <= set(one["verbs"])
        }

    def _get(self, path: str) -> Any:
        return call_on(self._connection, "GET", path).json

    def kinds(self) -> set[str]:
        """The resources of which there is any."""
        return {name for name, path in self._paths.items() if self._get(path)["items"]}

    def missing(self) -> set[str]:
        return set(self._paths) - self.kinds()

    def close(self) -> None:
        self._connection.close()


def test_namespace_with_every_kind_is_deleted_completely(kubectl: Kubectl, plane: Plane) -> None:
    kubectl("apply", "-f", str(AROUND))
    kubectl("create", "namespace", "shop")
    kubectl("wait", "--for=create", "serviceaccount/default", WAIT)
    kubectl("apply", "-f", str(IN_A_NAMESPACE))
    kubectl("rollout", "status", "deployment/web", WAIT)
    kubectl("rollout", "status", "statefulset/db", WAIT)
    kubectl("wait", "--for=condition=Complete", "job/done", WAIT)
    with closing(Contents(plane)) as contents:
        assert contents.missing() == NOT_MADE
        kubectl("delete", "namespace", "shop", WAIT)
        assert contents.kinds() == set()
    # Generated objects are deleted with their claims; manual ones are kept, by their policy.
    eventually(lambda: kubectl("get", "pv", "-o", "jsonpath={.items[*].metadata.name}") == "by-hand")
    assert kubectl("get", "pv", "by-hand", "-o", "jsonpath={.status.phase}") == "Released"
    assert plane.errors() == ""
