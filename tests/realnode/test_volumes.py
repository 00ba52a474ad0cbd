# SPDX-License-Identifier: Apache-2.0
"""Tests of persistent, image and certificate volumes in real containers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.realnode.images import BUSYBOX
from tests.realnode.node import NODE, RealNode
from tests.realnode.test_pods import container, pod, wait_reason

pytestmark = pytest.mark.realnode


def claimed(name: str, source: dict[str, Any], **spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A persistent volume, and the claim for it."""
    both = {"storageClassName": "", "accessModes": ["ReadWriteOnce"], **spec}
    size = {"storage": "1Mi"}
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [here]}}}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**both, "capacity": size, **source, **affinity, "persistentVolumeReclaimPolicy": "Retain"},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {**both, "resources": {"requests": size}, "volumeName": name},
    }
    return volume, claim


def volume_of(claim: str, **fields: Any) -> dict[str, Any]:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim, **fields}}


@pytest.fixture
def volumes(node: RealNode) -> Iterator[RealNode]:
    """The node; claims and volumes are removed afterwards."""
    yield node
    node.kubectl("delete", "pods,pvc,pv", "--all", "--grace-period=1", "--wait=true")


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    done = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("needs a loop device")
    yield Path(done.stdout.strip())
    subprocess.run(["losetup", "--detach", done.stdout.strip()], check=True)


def test_claims_of_folders_and_devices(volumes: RealNode, device: Path) -> None:
    node, folder = volumes, volumes.folder / "disk"
    folder.mkdir()
    node.apply(
        *claimed("local", {"local": {"path": str(folder)}}),
        *claimed("host", {"hostPath": {"path": str(node.folder / "made"), "type": "DirectoryOrCreate"}}),
        *claimed("raw", {"local": {"path": str(device)}}, volumeMode="Block"),
    )
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("local", "host")]
    script = "; ".join(
        (
            "stat -c %g /local; echo kept > /local/file; echo made > /host/file",
            "echo raw > /dev/block; head -c 3 /dev/block; echo",
            "touch /ro/x 2>&1 | grep -o Read-only",
        )
    )
    main = container(
        "c",
        script,
        volumeMounts=[*mounts, {"name": "again", "mountPath": "/ro"}],
        volumeDevices=[{"name": "raw", "devicePath": "/dev/block"}],
    )
    again = {**volume_of("local", readOnly=True), "name": "again"}
    everything = [volume_of("local"), volume_of("host"), volume_of("raw"), again]
    node.apply(pod("claims", main, volumes=everything, restartPolicy="Never", securityContext={"fsGroup": 1234}))
    node.wait_phase("claims", "Succeeded")
    assert node.kubectl("logs", "claims").splitlines() == ["1234", "raw", "Read-only"]
    node.kubectl("delete", "pod", "claims", "--wait=true")
    node.eventually(lambda: not node.leftovers())
    assert (folder / "file").read_text() == "kept\n", "the data outlives the pod"
    assert (node.folder / "made/file").read_text() == "made\n"


def test_file_system_on_a_device_is_kept(volumes: RealNode, device: Path) -> None:
    node = volumes
    node.apply(*claimed("disk", {"local": {"path": str(device), "fsType": "ext4"}}))
    mount = {"volumeMounts": [{"name": "disk", "mountPath": "/disk"}]}
    for name, script in (("one", "echo kept > /disk/file"), ("two", "cat /disk/file")):
        node.apply(pod(name, container("c", script, **mount), volumes=[volume_of("disk")], restartPolicy="Never"))
        node.wait_phase(name, "Succeeded")
        said = node.kubectl("logs", name)
        node.kubectl("delete", "pod", name, "--wait=true")
        node.eventually(lambda: not node.leftovers())
    assert said == "kept\n"
    assert str(device) not in Path("/proc/mounts").read_text()


def test_missing_claims_and_paths_are_reported(volumes: RealNode) -> None:
    node = volumes
    node.apply(*claimed("gone", {"local": {"path": "/no/such/folder"}}))
    used = {"volumeMounts": [{"name": "gone", "mountPath": "/x"}]}
    node.apply(pod("waits", container("c", "true", **used), volumes=[volume_of("gone")]))
    said = 'MountVolume.NewMounter initialization failed for volume "gone" : path "/no/such/folder" does not exist'
    node.eventually(lambda: said in node.kubectl("get", "events", "--field-selector", "reason=FailedMount"))


def test_image_volume_on_a_runtime_that_cannot_mount_images(node: RealNode) -> None:
    """The image is ensured, and the answer of the runtime is the status: containerd can mount images from 2.1 on."""
    volume = {"name": "i", "image": {"reference": BUSYBOX, "pullPolicy": "IfNotPresent"}}
    mounted = {"volumeMounts": [{"name": "i", "mountPath": "/image"}]}
    node.apply(pod("image", container("c", "ls /image/bin/busybox", **mounted), volumes=[volume]))
    wait_reason(node, "image", "CreateContainerError")
    away = {"name": "i", "image": {"reference": "registry.invalid/none:1", "pullPolicy": "Never"}}
    node.apply(pod("away", container("c", "true", **mounted), volumes=[away]))
    wait_reason(node, "away", "ErrImageNeverPull")


def test_recursive_read_only_mounts_need_the_runtime(node: RealNode) -> None:
    mount = {"name": "d", "mountPath": "/d", "readOnly": True, "recursiveReadOnly": "Enabled"}
    volumes = [{"name": "d", "emptyDir": {}}]
    node.apply(pod("strict", container("c", "true", volumeMounts=[mount]), volumes=volumes))
    waiting = wait_reason(node, "strict", "CreateContainerConfigError")
    assert "requested recursive read-only mode, but it is not supported by the runtime" in waiting["message"]
    lenient = {**mount, "recursiveReadOnly": "IfPossible"}
    run = container("c", "touch /d/x 2>&1 | grep -o Read-only", volumeMounts=[lenient])
    node.apply(pod("lenient", run, volumes=volumes, restartPolicy="Never"))
    node.wait_phase("lenient", "Succeeded")
    assert node.kubectl("logs", "lenient") == "Read-only\n"


def test_mounts_propagate_from_the_host(node: RealNode) -> None:
    folder = node.folder / "shared"
    (folder / "below").mkdir(parents=True)
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    subprocess.run(["mount", "--make-shared", str(folder)], check=True)
    try:
        mount = {"name": "h", "mountPath": "/h", "mountPropagation": "HostToContainer"}
        volume = {"name": "h", "hostPath": {"path": str(folder)}}
        node.apply(pod("sees", container("c", "sleep 1000", volumeMounts=[mount]), volumes=[volume]))
        node.wait_ready("sees")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder / "below")], check=True)
        (folder / "below" / "new").touch()
        assert node.kubectl("exec", "sees", "--", "ls", "/h/below") == "new\n"
        node.kubectl("delete", "pod", "sees", "--wait=true")
    finally:
        subprocess.run(["umount", "--recursive", str(folder)], check=True)


def test_pod_certificate_is_requested_and_written(node: RealNode) -> None:
    source = {"signerName": "example.com/one", "keyType": "ED25519", "credentialBundlePath": "bundle.pem"}
    volume = {"name": "v", "projected": {"sources": [{"podCertificate": source}]}}
    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    script = "grep -c BEGIN /v/bundle.pem; sleep 1000"
    node.apply(pod("cert", container("c", script, **mounted), volumes=[volume]))

    def request() -> dict[str, Any] | None:
        found = json.loads(node.kubectl("get", "podcertificaterequests", "-o", "json"))["items"]
        return found[0] if found else None

    found = node.eventually(request)
    assert (found["spec"]["podName"], found["spec"]["nodeName"]) == ("cert", NODE)
    answer_certificate_request(node, found)
    node.wait_ready("cert")
    node.eventually(lambda: node.kubectl("logs", "cert") == "2\n")


def answer_certificate_request(node: RealNode, request: dict[str, Any]) -> None:
    """Issue a certificate, as a signer of the cluster's user would."""
    import base64
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    now = datetime.now(UTC).replace(microsecond=0)
    csr = x509.load_der_x509_csr(base64.b64decode(request["spec"]["stubPKCS10Request"]))
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "one")])
    builder = x509.CertificateBuilder(name, name, csr.public_key(), x509.random_serial_number())
    life = (now - timedelta(minutes=5), now + timedelta(hours=2))
    made = builder.not_valid_before(life[0]).not_valid_after(life[1]).sign(ed25519.Ed25519PrivateKey.generate(), None)
    condition = {
        "type": "Issued",
        "status": "True",
        "reason": "Issued",
        "message": "",
        "lastTransitionTime": f"{now:%FT%TZ}",
    }
    status = {
        "certificateChain": made.public_bytes(serialization.Encoding.PEM).decode(),
        "notBefore": f"{life[0]:%FT%TZ}",
        "beginRefreshAt": f"{now + timedelta(hours=1):%FT%TZ}",
        "notAfter": f"{life[1]:%FT%TZ}",
        "conditions": [condition],
    }
    patch = json.dumps({"status": status})
    name_of = request["metadata"]["name"]
    node.kubectl("patch", "podcertificaterequests", name_of, "--subresource=status", "--type=merge", "-p", patch)
