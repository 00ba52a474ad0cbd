# SPDX-License-Identifier: Apache-2.0
"""Tests of the admission chain: order, operations, and rejections."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.admission import AdmissionChain, AdmissionPlugin, Attributes
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.warning_recorder import WarningRecorder

CONFIG_MAPS = next(r for r in RESOURCES if r.plural == "configmaps")
SECRETS = next(r for r in RESOURCES if r.plural == "secrets")


def _attempt(resource=CONFIG_MAPS, operation="CREATE", subresource="", name="x", obj=None):
    noon = datetime(2026, 5, 10, 12, tzinfo=UTC)
    return Attributes(
        operation, resource, subresource, "shop", name, obj, None, User("jane"), False, noon, WarningRecorder()
    )


class _Recorder(AdmissionPlugin):
    resources = frozenset({"configmaps"})

    def __init__(self, name, log):
        self._says = name
        self._log = log

    def admit(self, attempt):
        self._log.append(f"{self._says} admits")

    def validate(self, attempt):
        self._log.append(f"{self._says} checks")


def test_plugins_run_in_the_order_given():
    log = []
    chain = AdmissionChain((_Recorder("first", log), _Recorder("second", log)))
    chain.admit(_attempt())
    chain.validate(_attempt())
    assert log == ["first admits", "second admits", "first checks", "second checks"]


@pytest.mark.parametrize("attempt", [_attempt(SECRETS), _attempt(operation="UPDATE"), _attempt(subresource="status")])
def test_plugin_is_not_called_for_unhandled_operations(attempt):
    log = []
    chain = AdmissionChain((_Recorder("only", log),))
    chain.admit(attempt)
    chain.validate(attempt)
    assert log == []


def test_plugins_can_be_created_on_the_first_write():
    log = []

    def load():
        log.append("made")
        return (_Recorder("late", log),)

    chain = AdmissionChain(load)
    assert log == []
    chain.admit(_attempt())
    chain.admit(_attempt())
    assert log == ["made", "late admits", "late admits"]


@pytest.mark.parametrize(
    ("name", "obj", "told"),
    [
        ("x", None, "x"),
        ("", ConfigMap(metadata=ObjectMeta(name="own", generate_name="own-")), "own"),
        ("", ConfigMap(metadata=ObjectMeta(generate_name="web-")), "web-"),
        ("", None, "Unknown"),
    ],
)
def test_rejection_names_its_object(name, obj, told):
    assert _attempt(name=name, obj=obj).forbidden("no").message == f'configmaps "{told}" is forbidden: no'
