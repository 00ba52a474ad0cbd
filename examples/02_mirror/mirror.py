# SPDX-License-Identifier: Apache-2.0
"""A controller for a built-in kind: the data of one ConfigMap is the same in every namespace labelled `mirror`.

Run it alone: python mirror.py
Beside the built-in loops: kubeloop controller-manager --load mirror:wire
"""

from kubeloop.operator import Controller, ControllerContext, run
from kubeloop.types.core_v1 import ConfigMap, Namespace
from kubeloop.types.meta_v1 import ObjectMeta

SOURCE, NAME, MANAGER = "default", "shared-settings", "mirror"


def wire(context: ControllerContext) -> Controller[str]:
    """Reconciles namespaces by name."""
    namespaces = context.informers.for_resource(Namespace, labels="mirror")
    config_maps = context.informers.for_resource(ConfigMap, fields=f"metadata.name={NAME}")

    async def reconcile(namespace: str) -> None:
        source, wanted_here = config_maps.get(SOURCE, NAME), namespaces.get("", namespace)
        if source is None or wanted_here is None:
            return
        copy = config_maps.get(namespace, NAME)
        if copy is None or copy.data != source.data:
            wanted = ConfigMap(metadata=ObjectMeta(name=NAME, namespace=namespace), data=source.data)
            made = await context.client.apply(wanted, manager=MANAGER, force=True)
            await config_maps.wait_for_version(made.metadata.resource_version)  # read your own write the next time
            context.recorder.event(wanted_here, "Normal", "Mirrored", f"{NAME} is as in {SOURCE}")

    def concerned(config_map: ConfigMap) -> list[str]:
        """Return the keys to reconcile: a copy's namespace; for the source, all namespaces."""
        if config_map.metadata.namespace == SOURCE:
            return [one.metadata.name for one in namespaces.list()]
        return [config_map.metadata.namespace]

    controller = Controller(MANAGER, reconcile, context.clock, telemetry=context.telemetry)
    controller.watches(namespaces, lambda namespace: [namespace.metadata.name])
    controller.watches(config_maps, concerned)
    return controller


if __name__ == "__main__":
    run(wire, lease="default/mirror")
