# SPDX-License-Identifier: Apache-2.0
"""The official Python client against any API server: a deployment is made, watched, scaled and deleted.

Run it: python official.py
"""

from kubernetes import client, config, watch

NAME, NAMESPACE = "official", "default"


def deployment(replicas: int) -> client.V1Deployment:
    labels = {"app": NAME}
    container = client.V1Container(name="web", image="registry.example/web:1")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(
        replicas=replicas, selector=client.V1LabelSelector(match_labels=labels), template=template
    )
    return client.V1Deployment(metadata=client.V1ObjectMeta(name=NAME), spec=spec)


def main() -> None:
    config.load_config()
    apps = client.AppsV1Api()
    made = apps.create_namespaced_deployment(NAMESPACE, deployment(1))
    print(f"created {made.metadata.name} with {made.spec.replicas} replica, strategy {made.spec.strategy.type}")

    apps.patch_namespaced_deployment_scale(NAME, NAMESPACE, {"spec": {"replicas": 3}})
    print(f"scaled to {apps.read_namespaced_deployment(NAME, NAMESPACE).spec.replicas}")

    changes = watch.Watch()
    version = made.metadata.resource_version
    for event in changes.stream(apps.list_namespaced_deployment, NAMESPACE, resource_version=version):
        print(f"seen: {event['type']} {event['object'].metadata.name}, {event['object'].spec.replicas} replicas")
        changes.stop()

    apps.delete_namespaced_deployment(NAME, NAMESPACE, propagation_policy="Background")
    try:
        apps.read_namespaced_deployment(NAME, NAMESPACE)
    except client.ApiException as error:
        print(f"deleted: {error.status} {error.reason}")


if __name__ == "__main__":
    main()
