# SPDX-License-Identifier: Apache-2.0
"""AlwaysPullImages: makes every new image be pulled, so that its use requires credentials."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Container, EphemeralContainer, Pod, PodSpec
from kubeloop.api.meta.field_path import FieldPath, not_supported
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes

_ALWAYS = "Always"
_SPEC = FieldPath("spec")


class AlwaysPullImages(AdmissionPlugin):
    """Sets the pull policy of all containers and image volumes to Always."""

    name = "AlwaysPullImages"
    resources = frozenset({"pods"})
    operations = frozenset({"CREATE", "UPDATE"})

    def admit(self, attempt: Attributes) -> None:
        """Set the pull policies, unless an update brings no new image."""
        pod = attempt.obj
        assert isinstance(pod, Pod)
        if _has_no_new_image(attempt):
            return
        spec = pod.spec
        for field in ("init_containers", "containers", "ephemeral_containers"):
            containers = getattr(spec, field)
            if containers:
                always = tuple(replace(one, image_pull_policy=_ALWAYS) for one in containers)
                force_setattr(spec, field, always)
        if any(volume.image is not None for volume in spec.volumes):
            force_setattr(
                spec,
                "volumes",
                tuple(
                    replace(one, image=replace(one.image, pull_policy=_ALWAYS)) if one.image is not None else one
                    for one in spec.volumes
                ),
            )

    def validate(self, attempt: Attributes) -> None:
        """Reject a pull policy that was changed after mutation."""
        assert isinstance(attempt.obj, Pod)
        if _has_no_new_image(attempt):
            return
        wrong = [
            attempt.forbidden(not_supported(path, policy, (_ALWAYS,)).message()).message
            for path, policy in _pull_policies(attempt.obj.spec)
            if policy != _ALWAYS
        ]
        if wrong:
            raise errors.ApiError(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")


def _containers(spec: PodSpec) -> Iterator[tuple[FieldPath, Container | EphemeralContainer]]:
    groups: tuple[tuple[str, tuple[Container | EphemeralContainer, ...]], ...] = (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers or ()),
        ("ephemeralContainers", spec.ephemeral_containers),
    )
    for field, containers in groups:
        for index, container in enumerate(containers):
            yield _SPEC.child(field).index(index), container


def _pull_policies(spec: PodSpec) -> Iterator[tuple[FieldPath, str]]:
    for path, container in _containers(spec):
        yield path.child("imagePullPolicy"), container.image_pull_policy
    for index, volume in enumerate(spec.volumes):
        if volume.image is not None:
            yield _SPEC.child("volumes").index(index).child("image", "pullPolicy"), volume.image.pull_policy


def _has_no_new_image(attempt: Attributes) -> bool:
    if attempt.operation != "UPDATE":
        return False
    assert isinstance(attempt.obj, Pod)
    assert isinstance(attempt.old_obj, Pod)
    known = {container.image for _, container in _containers(attempt.old_obj.spec)}
    return all(container.image in known for _, container in _containers(attempt.obj.spec))
