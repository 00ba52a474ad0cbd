# SPDX-License-Identifier: Apache-2.0
"""Tokens that lie in secrets of kube-system, for machines that join."""

from __future__ import annotations

import base64

import pytest

TOKEN = "abcdef.0123456789abcdef"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
DATA = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}


@pytest.fixture
def joins(secured):
    """Creates the secret; returns the user of the token."""
    secured.may("create: selfsubjectreviews @authentication.k8s.io", group="system:authenticated")
    secured.namespace("kube-system")

    def ask(token: str = TOKEN, kind: str = "bootstrap.kubernetes.io/token", **changes: str):
        data = {name: base64.b64encode(value.encode()).decode() for name, value in {**DATA, **changes}.items()}
        meta = {"name": "bootstrap-token-abcdef", "namespace": "kube-system"}
        secured.made("/api/v1/namespaces/kube-system/secrets", {"metadata": meta, "type": kind, "data": data})
        answer = secured.post(WHO, {}, token=token)
        return answer.body["status"]["userInfo"] if answer.status == 201 else answer.status

    return ask


def test_token_authenticates_its_user(joins):
    assert joins() == {
        "username": "system:bootstrap:abcdef",
        "groups": ["system:bootstrappers", "system:authenticated"],
    }


def test_extra_groups_are_added(joins):
    info = joins(**{"auth-extra-groups": "system:bootstrappers:b,system:bootstrappers:a"})
    assert info["groups"][:3] == ["system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b"]


@pytest.mark.parametrize(
    "changes",
    [
        {"token": "abcdef.0123456789abcdee"},
        {"token": "abcdef"},
        {"kind": "Opaque"},
        {"token-id": "abcdeg"},
        {"usage-bootstrap-authentication": "false"},
        {"auth-extra-groups": "system:masters"},
        {"expiration": "2026-05-10T12:00:00Z"},
        {"expiration": "soon"},
    ],
)
def test_invalid_token_is_rejected(joins, changes):
    assert joins(**changes) == 401


def test_token_is_valid_until_it_expires(secured, joins):
    assert joins(expiration="2026-05-10T12:01:00Z") != 401
    secured.clock.advance(60)
    assert secured.post(WHO, {}, token=TOKEN).status == 401


def test_token_is_invalid_after_deletion_of_its_secret(secured, joins):
    assert joins() != 401
    secured.ask("DELETE", "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef")
    assert secured.post(WHO, {}, token=TOKEN).status == 401
