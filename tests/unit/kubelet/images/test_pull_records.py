# SPDX-License-Identifier: Apache-2.0
"""Files of image pulls: upstream's names and contents."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from kubeloop.kubelet.images.pull_records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullSecret,
    PullRecordError,
    PullRecords,
)

# Names of files are hashes: of the image in intents, of the reference in records.
INTENT = "sha256-ee81caca15454863449fb55a1d942904d56d5ed9f9b20a7cb3453944ea2c7e11"
RECORD = "sha256-b3c0cc4278800b03a308ceb2611161430df571ca733122f0a40ac8b9792a9064"
SECRET = ImagePullSecret(uid="u", namespace="default", name="pull-secret", credential_hash="h")


@pytest.fixture
def records(tmp_path: Path) -> PullRecords:
    found = PullRecords(tmp_path)
    found.open()
    return found


def test_files_are_upstreams(records: PullRecords, tmp_path: Path) -> None:
    records.write_intent("repo.repo/test/test:v1")
    intent = tmp_path / "image_manager/pulling" / INTENT
    assert json.loads(intent.read_text()) == {
        "kind": "ImagePullIntent",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "image": "repo.repo/test/test:v1",
    }
    assert (intent.stat().st_mode & 0o777, intent.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    mapping = {"docker.io/testing/test": ImagePullCredentials(kubernetes_secrets=(SECRET,))}
    record = ImagePulledRecord(
        last_updated_time="2024-10-21T12:26:40Z", image_ref="testimageref", credential_mapping=mapping
    )
    records.write_pulled(record)
    assert json.loads((tmp_path / "image_manager/pulled" / RECORD).read_text()) == {
        "kind": "ImagePulledRecord",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "lastUpdatedTime": "2024-10-21T12:26:40Z",
        "imageRef": "testimageref",
        "credentialMapping": {
            "docker.io/testing/test": {
                "kubernetesSecrets": [
                    {"uid": "u", "namespace": "default", "name": "pull-secret", "credentialHash": "h"}
                ]
            }
        },
    }
    assert records.get_pulled("testimageref") == record
    assert records.has_intent("repo.repo/test/test:v1")
    records.remove_intent("repo.repo/test/test:v1")
    records.remove_pulled("testimageref")
    assert not records.has_intent("repo.repo/test/test:v1")
    assert records.get_pulled("testimageref") is None


def test_a_record_without_credentials_has_no_mapping(records: PullRecords, tmp_path: Path) -> None:
    records.write_pulled(ImagePulledRecord(last_updated_time="2024-10-21T12:26:40Z", image_ref="r"))
    (file,) = (tmp_path / "image_manager/pulled").iterdir()
    assert "credentialMapping" not in json.loads(file.read_text())


def test_older_versions_are_written_again(records: PullRecords, tmp_path: Path) -> None:
    records.write_intent("a")
    records.write_pulled(ImagePulledRecord(last_updated_time="2024-10-21T12:26:40Z", image_ref="r"))
    files = list((tmp_path / "image_manager").glob("*/*"))
    for file in files:
        file.write_text(file.read_text().replace("v1beta1", "v1alpha1"))
    PullRecords(tmp_path).open()
    assert len(files) == 2
    assert all("v1beta1" in file.read_text() for file in files)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"kind": "ImagePulledRecord"}',
        '{"kind": "ImagePullIntent", "apiVersion": "kubelet.config.k8s.io/v2", "image": "a"}',
        '{"kind": "ImagePullIntent", "apiVersion": "kubelet.config.k8s.io/v1beta1", "image": "a", "more": 1}',
    ],
)
def test_malformed_files_are_logged_and_left_out(
    records: PullRecords, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    records.write_intent("a")
    (file,) = (tmp_path / "image_manager/pulling").iterdir()
    file.write_text(content)
    (file.parent / "other").write_text("{")
    records.write_intent("b")
    with caplog.at_level(logging.ERROR):
        assert [one.image for one in records.intents()] == ["b"]
    (logged,) = caplog.records
    assert file.name in logged.getMessage()
    with pytest.raises(PullRecordError):
        records.has_intent("a")


def test_a_malformed_time_is_an_error(records: PullRecords, tmp_path: Path) -> None:
    records.write_pulled(ImagePulledRecord(last_updated_time="2024-10-21T12:26:40Z", image_ref="r"))
    (file,) = (tmp_path / "image_manager/pulled").iterdir()
    file.write_text(file.read_text().replace("2024-", "x"))
    with pytest.raises(PullRecordError):
        records.get_pulled("r")


def test_a_file_of_another_image_is_none_of_this_one(records: PullRecords, tmp_path: Path) -> None:
    records.write_intent("a")
    records.write_pulled(ImagePulledRecord(last_updated_time="2024-10-21T12:26:40Z", image_ref="r"))
    for file in (tmp_path / "image_manager").glob("*/*"):
        file.write_text(file.read_text().replace('"a"', '"b"').replace('"r"', '"s"'))
    assert not records.has_intent("a")
    assert records.get_pulled("r") is None


def test_files_that_cannot_be_written_are_errors(records: PullRecords, tmp_path: Path) -> None:
    records.write_intent("a")
    (file,) = (tmp_path / "image_manager/pulling").iterdir()
    file.unlink()
    file.mkdir()
    with pytest.raises(PullRecordError, match="failed to create file"):
        records.write_intent("a")
    with pytest.raises(PullRecordError):
        records.remove_intent("a")
    assert [one.name for one in file.parent.iterdir()] == [file.name]
