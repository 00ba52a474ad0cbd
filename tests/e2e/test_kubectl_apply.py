# SPDX-License-Identifier: Apache-2.0
"""kubectl apply, diff, and server-side apply with its managers and conflicts."""

from __future__ import annotations

from typing import Any

import yaml

from tests.e2e.kubectl import Kubectl
from tests.e2e.plane import config_map
from tests.e2e.workloads import deployment
from tests.skips import kubectl_version, needs_kubectl

SERVER_SIDE = ("apply", "--server-side", "-f", "-")


def test_apply_creates_updates_and_reports_unchanged(kubectl: Kubectl) -> None:
    assert "created" in kubectl.apply(deployment("web"))
    assert "unchanged" in kubectl.apply(deployment("web"))
    assert "configured" in kubectl.apply(deployment("web", replicas=3))
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"


def test_apply_keeps_fields_of_others_and_removes_its_own(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one", ours="1", dropped="1"))
    kubectl("patch", "configmap", "one", "--type=merge", "-p", '{"data": {"theirs": "2"}}')
    kubectl.apply(config_map("one", ours="3"))
    assert kubectl.json("get", "configmap", "one")["data"] == {"ours": "3", "theirs": "2"}


def test_apply_of_a_folder_with_several_kinds(kubectl: Kubectl, tmp_path: Any) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(config_map("one")))
    (tmp_path / "b.yaml").write_text(yaml.safe_dump_all([config_map("two"), deployment("web")]))
    assert kubectl("apply", "-f", str(tmp_path)).count("created") == 3
    assert kubectl("delete", "-f", str(tmp_path)).count("deleted") == 3


def test_apply_prunes_removed_objects(kubectl: Kubectl) -> None:
    documents = [config_map("one"), config_map("two")]
    for document in documents:
        document["metadata"]["labels"] = {"set": "pruned"}
    prune = ("--prune", "-l", "set=pruned", "--prune-whitelist=core/v1/ConfigMap")
    if kubectl_version() >= (1, 26):
        prune = (*prune[:3], "--prune-allowlist=core/v1/ConfigMap")
    kubectl.apply(*documents)
    kubectl("apply", *prune, "-f", "-", stdin=yaml.safe_dump(documents[0]))
    assert kubectl("get", "configmap", "-l", "set", "-o", "name").split() == ["configmap/one"]


def test_diff(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one", colour="blue"))
    same = kubectl.run("diff", "-f", "-", stdin=yaml.safe_dump(config_map("one", colour="blue")))
    assert (same.code, same.out) == (0, "")
    changed = kubectl.run("diff", "-f", "-", stdin=yaml.safe_dump(config_map("one", colour="green")))
    assert changed.code == 1, changed.err
    assert "+  colour: green" in changed.out
    assert "-  colour: blue" in changed.out
    new = kubectl.run("diff", "-f", "-", stdin=yaml.safe_dump(config_map("two", colour="green")))
    assert new.code == 1, new.err
    assert "NotFound" in kubectl.fails("get", "configmap", "two")


def test_managers_of_server_side_apply_are_named(kubectl: Kubectl) -> None:
    kubectl(*SERVER_SIDE, "--field-manager=tests", stdin=yaml.safe_dump(config_map("one", colour="blue")))
    shown = ("--show-managed-fields",) if kubectl_version() >= (1, 21) else ()
    (entry,) = kubectl.json("get", "configmap", "one", *shown)["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("tests", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:colour": {}}}


def test_conflicting_managers_are_reported_and_can_be_forced(kubectl: Kubectl) -> None:
    kubectl(*SERVER_SIDE, "--field-manager=first", stdin=yaml.safe_dump(config_map("one", colour="blue")))
    theirs = yaml.safe_dump(config_map("one", colour="green"))
    said = kubectl.fails(*SERVER_SIDE, "--field-manager=second", stdin=theirs)
    assert 'conflict with "first": .data.colour' in said
    assert kubectl("get", "cm", "one", "-o", "jsonpath={.data.colour}") == "blue"
    kubectl(*SERVER_SIDE, "--field-manager=second", "--force-conflicts", stdin=theirs)
    assert kubectl("get", "cm", "one", "-o", "jsonpath={.data.colour}") == "green"
    kubectl(*SERVER_SIDE, "--field-manager=first", stdin=yaml.safe_dump(config_map("one", shape="round")))
    assert kubectl.json("get", "configmap", "one")["data"] == {"colour": "green", "shape": "round"}


def test_managers_that_agree_share_a_field(kubectl: Kubectl) -> None:
    same = yaml.safe_dump(config_map("one", colour="blue"))
    kubectl(*SERVER_SIDE, "--field-manager=first", stdin=same)
    kubectl(*SERVER_SIDE, "--field-manager=second", stdin=same)
    kubectl(*SERVER_SIDE, "--field-manager=first", stdin=yaml.safe_dump(config_map("one")))
    assert kubectl.json("get", "configmap", "one")["data"] == {"colour": "blue"}
    kubectl(*SERVER_SIDE, "--field-manager=second", stdin=yaml.safe_dump(config_map("one")))
    assert "data" not in kubectl.json("get", "configmap", "one")


def test_server_side_apply_of_a_deployment_with_merged_lists(kubectl: Kubectl) -> None:
    kubectl(*SERVER_SIDE, "--field-manager=first", stdin=yaml.safe_dump(deployment("web")))
    second = deployment("web")
    second["spec"]["template"]["spec"]["containers"] = [{"name": "side", "image": "busybox"}]
    kubectl(*SERVER_SIDE, "--field-manager=second", stdin=yaml.safe_dump(second))
    containers = kubectl.json("get", "deployment", "web")["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["web", "side"]


def test_migration_from_client_side_to_server_side_apply(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one", colour="blue"))
    kubectl(*SERVER_SIDE, stdin=yaml.safe_dump(config_map("one", colour="green")))
    assert kubectl("get", "cm", "one", "-o", "jsonpath={.data.colour}") == "green"


@needs_kubectl(1, 25)
def test_unknown_fields_warn_or_are_ignored_on_request(kubectl: Kubectl) -> None:
    wrong = yaml.safe_dump({**config_map("one"), "colour": "blue"})
    assert "unknown field" in kubectl.fails("apply", "--validate=strict", "-f", "-", stdin=wrong)
    said = kubectl.run("apply", "--validate=warn", "-f", "-", stdin=wrong)
    assert (said.code, 'unknown field "colour"' in said.err) == (0, True)
    said = kubectl.run("apply", "--validate=ignore", "-f", "-", stdin=wrong)
    assert (said.code, said.err) == (0, "")
