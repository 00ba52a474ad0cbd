# SPDX-License-Identifier: Apache-2.0
"""NamespaceLifecycle, through the whole chain."""

from __future__ import annotations

import pytest

from kubeloop.api import errors


def test_create_in_a_missing_namespace_is_rejected(writes):
    with pytest.raises(errors.NotFound) as caught:
        writes.create("configmaps", "nowhere")
    assert caught.value.message == 'namespaces "nowhere" not found'
    assert caught.value.details == errors.StatusDetails("nowhere", "", "namespaces")


def test_create_in_a_terminating_namespace_is_rejected(cluster, writes):
    cluster.add("namespaces", "leaving", status={"phase": "Terminating"})
    with pytest.raises(errors.Forbidden) as caught:
        writes.create("configmaps", "leaving", name="settings")
    assert caught.value.message == (
        'configmaps "settings" is forbidden: unable to create new content in namespace leaving '
        "because it is being terminated"
    )
    assert caught.value.causes == (
        errors.StatusCause("NamespaceTerminating", "namespace leaving is being terminated", "metadata.namespace"),
    )


def test_objects_in_a_terminating_namespace_can_be_changed_and_deleted(cluster, writes):
    cluster.add("namespaces", "leaving", status={"phase": "Terminating"})
    writes.update("configmaps", "leaving", {}, {"data": {"a": "b"}})
    writes.delete("configmaps", "x", "leaving")


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_system_namespaces_cannot_be_deleted(writes, name):
    with pytest.raises(errors.Forbidden) as caught:
        writes.delete("namespaces", name)
    assert caught.value.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


def test_other_namespaces_can_be_deleted_and_created(writes):
    writes.delete("namespaces", "kube-node-lease")
    writes.create("namespaces", name="new")


def test_access_review_does_not_reveal_missing_namespaces(writes):
    writes.create("localsubjectaccessreviews", "nowhere")


def test_cluster_scoped_object_needs_no_namespace(writes):
    writes.create("clusterroles", name="reader")
