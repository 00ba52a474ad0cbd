# SPDX-License-Identifier: Apache-2.0
"""A script: plain calls against the cluster of the kubeconfig, typed objects in and out.

Run it: python script.py
"""

from kubeloop.client import NotFound, SyncClient
from kubeloop.types.core_v1 import ConfigMap
from kubeloop.types.meta_v1 import ObjectMeta

NAMESPACE, NAME = "default", "greeting"


def main() -> None:
    with SyncClient() as client:
        made = client.create(ConfigMap(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), data={"hello": "world"}))
        print(f"created {made.metadata.name}, resourceVersion {made.metadata.resource_version}")

        client.patch(ConfigMap, NAME, {"data": {"goodbye": "world"}}, NAMESPACE)
        found = client.get(ConfigMap, NAME, NAMESPACE)
        print("data: " + ", ".join(f"{key} {value}" for key, value in sorted(found.data.items())))

        # Kinds can be named as for kubectl, too; objects come in pages, and changes as they happen.
        for page in client.list_pages("cm", NAMESPACE, limit=50):
            print("all: " + ", ".join(one.metadata.name for one in page.items))
        changes = client.watch(ConfigMap, NAMESPACE, resource_version=found.metadata.resource_version)
        client.delete(ConfigMap, NAME, NAMESPACE)
        for batch in changes:
            print("seen: " + ", ".join(event.type for event in batch))
            break
        changes.close()

        try:
            client.get(ConfigMap, NAME, NAMESPACE)
        except NotFound as error:
            print(error)


if __name__ == "__main__":
    main()
