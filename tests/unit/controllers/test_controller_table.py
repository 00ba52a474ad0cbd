# SPDX-License-Identifier: Apache-2.0
"""The table of loops, and which of them a command line means."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeloop import controllers
from kubeloop.api.features.gates import STAGES
from kubeloop.controllers import CONTROLLERS, InvalidControllers, select

# The token controller cannot wait for its own account's token.
OF_THE_MANAGER = ("serviceaccount-token-controller",)
# Off in 1.37 unless their gates are enabled.
CLOSED = (
    "podgroup-protection-controller",
    "resourcepoolstatusrequest-controller",
    "storageversion-garbage-collector-controller",
)


def chosen(*words: str, gates: tuple[str, ...] = ()) -> tuple[str, ...]:
    return tuple(one.name for one in select(words, gates))


def test_names_and_aliases_are_unique() -> None:
    names = [name for one in CONTROLLERS for name in (one.name, one.alias) if name]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("one", CONTROLLERS, ids=lambda one: one.name)
def test_every_controller_can_be_wired_and_has_an_account(one: object) -> None:
    assert callable(one.wire())  # type: ignore[attr-defined]
    assert one.account or one.name in OF_THE_MANAGER  # type: ignore[attr-defined]


def test_every_controller_module_is_in_the_table() -> None:
    folder = Path(controllers.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "\ndef wire(" in path.read_text()}
    modules |= {path.parent.name for path in folder.glob("*/__init__.py") if "\ndef wire(" in path.read_text()}
    assert modules == {one.module for one in CONTROLLERS}


def test_star_selects_all_enabled_by_default() -> None:
    assert set(chosen("*")) == {one.name for one in CONTROLLERS if one.on_by_default and one.name not in CLOSED}


def test_every_upstream_controller_is_listed() -> None:
    assert len(CONTROLLERS) == 49


@pytest.mark.parametrize(
    ("loop", "gates"),
    [
        ("podgroup-protection-controller", "GenericWorkload"),
        ("resourcepoolstatusrequest-controller", "DRAResourcePoolStatus"),
        ("storageversion-garbage-collector-controller", "StorageVersionAPI"),
    ],
)
def test_controllers_with_disabled_gates_are_off(loop: str, gates: str) -> None:
    assert loop not in chosen("*")
    assert loop not in chosen("*", loop)
    assert loop in chosen("*", gates=(f"{gates}=true",))


def test_controller_is_disabled_with_its_gate() -> None:
    assert "device-taint-eviction-controller" in chosen("*")
    gates = ("DRADeviceTaints=false", "DRADeviceTaintRules=false")
    assert "device-taint-eviction-controller" not in chosen("*", gates=gates)


def test_every_gate_of_a_controller_is_known() -> None:
    assert {gate for one in CONTROLLERS for gate in one.gates} <= STAGES.keys()


@pytest.mark.parametrize("gate", ["NoSuchGate=true", "MultiCIDRServiceAllocator=false", "GenericWorkload"])
def test_locked_gate_is_rejected(gate: str) -> None:
    with pytest.raises(InvalidControllers, match=r"gate|missing"):
        select(["*"], [gate])


def test_controller_is_selected_by_name_or_alias() -> None:
    assert chosen("serviceaccount") == chosen("serviceaccount-controller") == ("serviceaccount-controller",)


def test_minus_disables_a_controller() -> None:
    assert "serviceaccount-controller" not in chosen("*", "-serviceaccount")
    assert chosen("-serviceaccount") == ()


def test_first_selector_of_a_controller_takes_precedence() -> None:
    assert chosen("serviceaccount", "-serviceaccount") == ("serviceaccount-controller",)
    assert chosen("-serviceaccount", "serviceaccount") == ()


@pytest.mark.parametrize("word", ["replica-set", "-replica-set", "", "-", "**"])
def test_unknown_name_is_rejected_with_the_known_ones(word: str) -> None:
    with pytest.raises(
        InvalidControllers, match="is not in the list of known controllers: bootstrap-signer-controller, "
    ):
        select([word])
