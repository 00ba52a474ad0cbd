# SPDX-License-Identifier: Apache-2.0
"""Rules of volume mounts and volume devices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates

POD = {"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [
    {"name": "v", "emptyDir": {}}, {"name": "w", "persistentVolumeClaim": {"claimName": "p"}},
    {"name": "x", "image": {"reference": "r"}}]}}  # fmt: skip


def mount(**fields: Any) -> dict[str, Any]:
    return {"spec.containers.0.volumeMounts": [{"name": "v", "mountPath": "/v", **fields}]}


def device(**fields: Any) -> dict[str, Any]:
    return {"spec.containers.0.volumeDevices": [{"name": "w", "devicePath": "/w", **fields}]}


CASES = [
    *creates("pods", POD, [
        (mount(name=""),
            ["spec.containers[0].volumeMounts[0].name: Required value",
             'spec.containers[0].volumeMounts[0].name: Not found: ""']),
        (mount(name="z"), ['spec.containers[0].volumeMounts[0].name: Not found: "z"']),
        (mount(mountPath=""), ["spec.containers[0].volumeMounts[0].mountPath: Required value"]),
        ({"spec.containers.0.volumeMounts": [{"name": "v", "mountPath": "/v"}] * 2},
            ['spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/v": must be unique']),
        ({**mount(name="w"), **device()},
            [('spec.containers[0].volumeMounts[0].name: Invalid value: "w": must not already exist in '
             "volumeDevices"),
             ('spec.containers[0].volumeDevices[0].name: Invalid value: "w": must not already exist in '
             "volumeMounts")]),
        ({**mount(mountPath="/w"), **device()},
            [('spec.containers[0].volumeMounts[0].mountPath: Invalid value: "/w": must not already exist as a '
             "path in volumeDevices"),
             ('spec.containers[0].volumeDevices[0].devicePath: Invalid value: "/w": must not already exist as a '
             "path in volumeMounts")]),
        (mount(subPath="/s"),
            ['spec.containers[0].volumeMounts.subPath: Invalid value: "/s": must be a relative path']),
        (mount(subPath="../s"),
            ["spec.containers[0].volumeMounts.subPath: Invalid value: \"../s\": must not contain '..'"]),
        (mount(subPathExpr="/s"),
            ['spec.containers[0].volumeMounts.subPathExpr: Invalid value: "/s": must be a relative path']),
        (mount(subPath="s", subPathExpr="s"),
            ['spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: "s": subPathExpr and subPath are '
             "mutually exclusive"]),
        (mount(mountPropagation="P"),
            ['spec.containers[0].volumeMounts.mountPropagation: Unsupported value: "P": supported values: '
             '"Bidirectional", "HostToContainer", "None"']),
        (mount(mountPropagation="Bidirectional"),
            ["spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is "
             "available only to privileged containers"]),
        (mount(recursiveReadOnly="R"),
            ['spec.containers[0].volumeMounts.recursiveReadOnly: Unsupported value: "R": supported values: '
             '"Disabled", "Enabled", "IfPossible"']),
        (mount(recursiveReadOnly="Enabled"),
            ["spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly "
             "is true"]),
        (mount(recursiveReadOnly="Enabled", readOnly=True, mountPropagation="HostToContainer"),
            ["spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when "
             "mountPropagation is None or not specified"]),
        (device(name=""),
            ["spec.containers[0].volumeDevices[0].name: Required value",
             'spec.containers[0].volumeDevices[0].name: Not found: ""']),
        (device(name="z"), ['spec.containers[0].volumeDevices[0].name: Not found: "z"']),
        (device(name="v"),
            ['spec.containers[0].volumeDevices[0].name: Invalid value: "v": can only use volume source type of '
             "PersistentVolumeClaim or Ephemeral for block mode"]),
        (device(devicePath=""), ["spec.containers[0].volumeDevices[0].devicePath: Required value"]),
        (device(devicePath="/a/../b"),
            ['spec.containers[0].volumeDevices[0].devicePath: Invalid value: "/a/../b": can not contain '
             "backsteps ('..')"]),
        ({"spec.containers.0.volumeDevices": [{"name": "w", "devicePath": "/w"}, {"name": "w", "devicePath": "/x"}]},
            ['spec.containers[0].volumeDevices[1].name: Invalid value: "w": must be unique']),
        ({"spec.containers.0.volumeDevices": [{"name": "w", "devicePath": "/w"}] * 2},
            ['spec.containers[0].volumeDevices[1].name: Invalid value: "w": must be unique',
             'spec.containers[0].volumeDevices[1].devicePath: Invalid value: "/w": must be unique']),
    ]),
    *creates("pods", POD, [
        (mount(bindMountOptions=["o"]),
            ['spec.containers[0].volumeMounts[0].bindMountOptions[0]: Unsupported value: "o": supported values: '
             '"nodev", "noexec", "nosuid"']),
        (mount(bindMountOptions=["nodev", "nodev"]),
            ['spec.containers[0].volumeMounts[0].bindMountOptions[1]: Duplicate value: "nodev"']),
        (mount(name="x", bindMountOptions=["nodev"]),
            ['spec.containers[0].volumeMounts[0].bindMountOptions: Invalid value: ["nodev"]: bindMountOptions '
             "may not be used with image volumes"]),
    ], ALL_FEATURES),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_mounts_are_reported(case: Case) -> None:
    assert case.found() == case.errors
