"""The table of loops, and which of them a command line means."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeloop import controllers
from kubeloop.api.features.gates import STAGES
from kubeloop.controllers import CONTROLLERS, InvalidControllers, select

# What makes the tokens of accounts cannot wait for one of its own.
OF_THE_MANAGER = ("serviceaccount-token-controller",)
# Off in 1.37 unless somebody opens their gates.
CLOSED = (
    "podgroup-protection-controller",
    "resourcepoolstatusrequest-controller",
    "storageversion-garbage-collector-controller",
)
AVAILABLE = tuple(one.name for one in CONTROLLERS if one.is_available)


def chosen(*words: str, gates: tuple[str, ...] = ()) -> tuple[str, ...]:
    return tuple(one.name for one in select(words, gates).chosen)


def test_names_and_aliases_are_all_different() -> None:
    names = [name for one in CONTROLLERS for name in (one.name, one.alias) if name]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("one", [one for one in CONTROLLERS if one.is_available], ids=lambda one: one.name)
def test_available_loop_can_be_wired_and_has_an_account(one: object) -> None:
    assert callable(one.wire())  # type: ignore[attr-defined]
    assert one.account or one.name in OF_THE_MANAGER  # type: ignore[attr-defined]


def test_every_module_of_a_loop_is_in_the_table() -> None:
    folder = Path(controllers.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "\ndef wire(" in path.read_text()}
    modules |= {path.parent.name for path in folder.glob("*/__init__.py") if "\ndef wire(" in path.read_text()}
    assert modules == {one.module for one in CONTROLLERS if one.module}


def test_star_means_everything_that_is_on_by_default() -> None:
    choice = select(["*"])
    assert {one.name for one in choice.chosen} == {
        one.name for one in CONTROLLERS if one.is_available and one.on_by_default and one.name not in CLOSED
    }
    assert not {"token-cleaner-controller", "selinux-warning-controller"} & {one.name for one in choice.missing}


def test_every_loop_of_upstream_is_there() -> None:
    assert len(CONTROLLERS) == 49
    assert [one.name for one in CONTROLLERS if not one.is_available] == []


@pytest.mark.parametrize(
    ("loop", "gates"),
    [
        ("podgroup-protection-controller", "GenericWorkload"),
        ("resourcepoolstatusrequest-controller", "DRAResourcePoolStatus"),
        ("storageversion-garbage-collector-controller", "StorageVersionAPI"),
    ],
)
def test_loops_behind_closed_gates_are_off(loop: str, gates: str) -> None:
    assert loop not in chosen("*")
    assert loop not in chosen("*", loop)
    assert loop in chosen("*", gates=(f"{gates}=true",))


def test_loop_ends_with_its_gate() -> None:
    assert "device-taint-eviction-controller" in chosen("*")
    gates = ("DRADeviceTaints=false", "DRADeviceTaintRules=false")
    assert "device-taint-eviction-controller" not in chosen("*", gates=gates)


def test_every_gate_of_a_loop_is_known() -> None:
    assert {gate for one in CONTROLLERS for gate in one.gates} <= STAGES.keys()


@pytest.mark.parametrize("gate", ["NoSuchGate=true", "MultiCIDRServiceAllocator=false", "GenericWorkload"])
def test_gate_that_cannot_be_set_is_refused(gate: str) -> None:
    with pytest.raises(InvalidControllers, match=r"gate|missing"):
        select(["*"], [gate])


def test_loop_is_chosen_by_its_name_or_its_old_one() -> None:
    assert chosen("serviceaccount") == chosen("serviceaccount-controller") == ("serviceaccount-controller",)


def test_minus_leaves_a_loop_out() -> None:
    assert "serviceaccount-controller" not in chosen("*", "-serviceaccount")
    assert chosen("-serviceaccount") == ()


def test_first_word_about_a_loop_counts() -> None:
    assert chosen("serviceaccount", "-serviceaccount") == ("serviceaccount-controller",)
    assert chosen("-serviceaccount", "serviceaccount") == ()


@pytest.mark.parametrize("word", ["replica-set", "-replica-set", "", "-", "**"])
def test_unknown_name_is_refused_with_the_known_ones(word: str) -> None:
    with pytest.raises(
        InvalidControllers, match="is not in the list of known controllers: bootstrap-signer-controller, "
    ):
        select([word])
