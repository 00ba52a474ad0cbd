# SPDX-License-Identifier: Apache-2.0
"""An update or a patch that creates its object requires the permission to create it."""

from __future__ import annotations

import pytest

MAPS = "/api/v1/namespaces/shop/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"
MAP = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}'


@pytest.fixture
def bob(secured):
    secured.namespace("shop")
    secured.may("get patch: configmaps", user="bob", namespace="shop")
    secured.may("get update: leases @coordination.k8s.io", user="bob", namespace="shop")
    return secured.knows("bob")


def apply(secured, token):
    path = f"{MAPS}/new?fieldManager=test"
    return secured.ask("PATCH", path, MAP, token=token, content_type="application/apply-patch+yaml")


def put(secured, token):
    return secured.ask("PUT", f"{LEASES}/new", {"metadata": {"name": "new"}, "spec": {}}, token=token)


@pytest.mark.parametrize(
    ("write", "what", "right"),
    [
        (apply, 'resource "configmaps" in API group ""', "create: configmaps"),
        (put, 'resource "leases" in API group "coordination.k8s.io"', "create: leases @coordination.k8s.io"),
    ],
)
def test_creation_by_another_verb_requires_permission_to_create(secured, bob, write, what, right):
    refused = write(secured, bob)
    assert refused.status == 403
    assert refused.body["message"].endswith(f'User "bob" cannot create {what} in the namespace "shop"')
    secured.may(right, user="bob", namespace="shop")
    assert write(secured, bob).status == 201


def test_an_object_that_exists_is_changed_without_it(secured, bob):
    assert apply(secured, "admin").status == 201
    assert apply(secured, bob).status == 200
