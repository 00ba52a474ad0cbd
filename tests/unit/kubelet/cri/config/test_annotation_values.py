# SPDX-License-Identifier: Apache-2.0
"""Values of container annotations, for containers with every type of field."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerPort,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    ResourceRequirements,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.cri.config.labels import container_annotations

_POD = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="1"))


def test_annotations_of_a_container_with_amounts_ports_and_hook() -> None:
    container = Container(
        name="app",
        resources=ResourceRequirements(limits={"memory": Quantity("64Mi")}),
        ports=(ContainerPort(container_port=80),),
        lifecycle=Lifecycle(pre_stop=LifecycleHandler(http_get=HTTPGetAction(port="http", path="/end"))),
    )
    found = container_annotations(_POD, container, 2)
    assert found["io.kubernetes.container.restartCount"] == "2"
    assert '"port":"http"' in found["io.kubernetes.container.preStopHandler"]
    assert '"containerPort":80' in found["io.kubernetes.container.ports"]


def test_hash_depends_on_the_resources() -> None:
    def hash_of(memory: str) -> str:
        resources = ResourceRequirements(limits={"memory": Quantity(memory)})
        return container_annotations(_POD, Container(name="app", resources=resources), 0)[
            "io.kubernetes.container.hash"
        ]

    assert hash_of("64Mi") == hash_of("64Mi") != hash_of("65Mi")
