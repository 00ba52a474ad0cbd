# SPDX-License-Identifier: Apache-2.0
"""Tests of owner references, identified by UID."""

import msgspec

from kubeloop.api.meta.owner_references import (
    controller_of,
    is_controlled_by,
    is_owned_by,
    is_same_referent,
    with_owner,
    without_owners,
)


class Reference(msgspec.Struct, frozen=True):
    uid: str
    controller: bool | None = None
    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"
    name: str = "r"


PLAIN = Reference("u1")
CONTROLLER = Reference("u2", controller=True)


def test_controller_is_the_reference_with_the_controller_flag() -> None:
    assert controller_of((PLAIN, CONTROLLER)) is CONTROLLER
    assert controller_of((PLAIN, Reference("u3", controller=False))) is None


def test_owner_with_another_uid_controls_nothing() -> None:
    assert is_controlled_by((CONTROLLER,), "u2")
    assert not is_controlled_by((CONTROLLER,), "other")
    assert not is_controlled_by((PLAIN,), "u1")
    assert is_owned_by((PLAIN,), "u1")


def test_an_object_is_the_same_in_every_version_of_its_group() -> None:
    assert is_same_referent(PLAIN, Reference("u9", api_version="apps/v1beta1"))
    assert not is_same_referent(PLAIN, Reference("u1", api_version="v1"))
    assert not is_same_referent(PLAIN, Reference("u1", name="s"))


def test_an_owner_is_added_once_and_updated_in_place() -> None:
    references = (PLAIN, CONTROLLER)
    assert with_owner(references, PLAIN) is references
    assert with_owner(references, Reference("u1", controller=False)) == (Reference("u1", controller=False), CONTROLLER)
    assert with_owner((PLAIN,), CONTROLLER) == references


def test_owners_are_taken_off_by_uid() -> None:
    references = (PLAIN, CONTROLLER)
    assert without_owners(references, {"u1"}) == (CONTROLLER,)
    assert without_owners(references, {"u7"}) is references
