# SPDX-License-Identifier: Apache-2.0
"""Tests of `kubeloop crd generate`: the YAML of definitions, and wrong names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.cli.main import main
from kubeloop.testing import Cluster

MODULE = '''
from msgspec import Struct
from kubeloop.operator import CustomKind, CustomObject

class Spec(Struct, frozen=True, kw_only=True):
    schedule: str
    keep: int = 3

class Backup(CustomObject, frozen=True, kw_only=True):
    """Saves a volume."""
    spec: Spec

class Restore(CustomObject, frozen=True, kw_only=True):
    spec: Spec

class Loose(CustomObject, frozen=True, kw_only=True):
    spec: complex

BACKUPS = CustomKind(Backup, "backups.example.com/v1", short_names=("bk",), columns={"Keep": ".spec.keep"})
RESTORES = CustomKind(Restore, "restores.example.com/v1", namespaced=False)
LOOSE = CustomKind(Loose, "loose.example.com/v1")
NAMELESS = CustomKind(Backup, "backups")
'''


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide the module `backup_kinds` in the current directory."""
    (tmp_path / "backup_kinds.py").write_text(MODULE)
    (tmp_path / "broken_kinds.py").write_text("import missing_module")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "backup_kinds", raising=False)


def generated(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main(["crd", "generate", *arguments]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_definition_is_accepted_by_a_server(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    (definition,) = generated(capsys, "backup_kinds:BACKUPS")
    assert list(definition) == ["apiVersion", "kind", "metadata", "spec"]
    cluster.add(definition)
    cluster.settle()
    found = cluster.client.get(CustomResourceDefinition, "backups.example.com")
    assert {one.type: one.status for one in found.status.conditions}["Established"] == "True"
    cluster.add({
        "apiVersion": "example.com/v1", "kind": "Backup",
        "metadata": {"name": "b", "namespace": "default"}, "spec": {"schedule": "@daily"},
    })  # fmt: skip
    assert cluster.client.get("bk.example.com/v1", "b", "default")["spec"] == {"schedule": "@daily", "keep": 3}


def test_definition_as_json_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    (expected,) = generated(capsys, "backup_kinds:BACKUPS")
    assert main(["crd", "generate", "backup_kinds:BACKUPS", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == expected


def test_several_kinds_are_several_documents(capsys: pytest.CaptureFixture[str]) -> None:
    found = generated(capsys, "backup_kinds:BACKUPS", "backup_kinds:RESTORES", "backup_kinds:BACKUPS")
    assert [(one["metadata"], one["spec"]["scope"]) for one in found] == [
        ({"name": "backups.example.com"}, "Namespaced"),
        ({"name": "restores.example.com"}, "Cluster"),
    ]


def test_output_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generated(capsys, "backup_kinds:BACKUPS", "--output-file", "crd.yaml") == []
    assert yaml.safe_load((tmp_path / "crd.yaml").read_text())["metadata"] == {"name": "backups.example.com"}


@pytest.mark.parametrize(("arguments", "message"), [
    (["backup_kinds:NONE"], "backup_kinds:NONE does not exist; there are: BACKUPS, RESTORES, LOOSE, NAMELESS"),
    (["backup_kinds:Backup"], "backup_kinds:Backup is not a CustomKind; there are: BACKUPS"),
    (["sys:path"], "sys:path is not a CustomKind; the module has none"),
    (["no_such_module:X"], "cannot import no_such_module: ModuleNotFoundError"),
    (["broken_kinds:X"], "cannot import broken_kinds: ModuleNotFoundError: No module named 'missing_module'"),
    (["backup_kinds:LOOSE"], "loose.example.com/v1: "),
    (["backup_kinds:NAMELESS"], "'backups' is not of the form plural.group/version"),
    (["backup_kinds:BACKUPS", "--output-file", "no/such/folder/crd.yaml"], "No such file or directory"),
])  # fmt: skip
def test_wrong_input_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crd", "generate", *arguments]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("kubeloop: ")
    assert message in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("name", ["backup_kinds", "backup_kinds.BACKUPS", "a:b:c", ":X", "backup-kinds:X"])
def test_wrong_form_is_a_usage_error(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["crd", "generate", name])
    assert caught.value.code == 2
    assert f"{name!r} is not of the form module:KIND" in capsys.readouterr().err
