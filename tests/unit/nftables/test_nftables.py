# SPDX-License-Identifier: Apache-2.0
"""Scripts of nft, the choice of an interface, and errors in words."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kubeloop.nftables import NftablesError, NftablesNotFound, NftablesUnavailable
from kubeloop.nftables.command import NftCommand, open_command
from kubeloop.nftables.interface import check_version, error_of
from kubeloop.nftables.library import open_library, open_nftables
from kubeloop.nftables.script import BaseChain, SetElement, TableScript, quote


def program(folder: Path, body: str) -> str:
    path = folder / "nft"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_script_has_one_statement_a_line() -> None:
    script = TableScript("ip", "t")
    script.add_table("mine")
    script.add_chain("hooked", BaseChain("nat", "prerouting", "dstnat"))
    script.add_chain("plain", comment="helps")
    script.add_set("clients", "type ipv4_addr", "flags dynamic,timeout", "timeout 5s")
    script.add_map("places", "type inet_service : verdict", comment="ports")
    script.add_rule("plain", "drop", 'a "quoted" word')
    script.flush_chain("plain")
    script.add_elements("places", [SetElement("80", "drop", "web"), SetElement("81", "accept")])
    script.delete_elements("places", ["80"])
    script.delete_set("clients")
    script.delete_chain("plain")
    script.delete_table()
    assert len(script) == 12
    assert script.text().splitlines() == [
        'add table ip t { comment "mine"; }',
        "add chain ip t hooked { type nat hook prerouting priority dstnat; }",
        'add chain ip t plain { comment "helps"; }',
        "add set ip t clients { type ipv4_addr; flags dynamic,timeout; timeout 5s; }",
        'add map ip t places { type inet_service : verdict; comment "ports"; }',
        "add rule ip t plain drop comment \"a 'quoted' word\"",
        "flush chain ip t plain",
        'add element ip t places { 80 comment "web" : drop, 81 : accept }',
        "delete element ip t places { 80 }",
        "delete set ip t clients",
        "delete chain ip t plain",
        "delete table ip t",
    ]


def test_many_elements_are_split_and_none_write_nothing() -> None:
    script = TableScript("ip", "t")
    script.add_elements("s", [])
    script.add_elements("s", [SetElement(str(number)) for number in range(2500)])
    assert [line.count(",") + 1 for line in script.text().splitlines()] == [1000, 1000, 500]


def test_comments_are_cut_to_whole_characters() -> None:
    assert quote("ü" * 100) == '"' + "ü" * 64 + '"'


@pytest.mark.parametrize("text", ["nftables v1.0.1 (Fearless Fosdick #3)", "nftables v1.1 (x)", "v2.0.0"])
def test_versions_that_are_new_enough(text: str) -> None:
    check_version(text)


@pytest.mark.parametrize(("text", "message"), [("nftables v0.9.8 (E.D.S.)", "0.9.8 is too old"), ("x", "is unknown")])
def test_versions_that_are_not(text: str, message: str) -> None:
    with pytest.raises(NftablesUnavailable, match=message):
        check_version(text)


def test_errors_by_their_text() -> None:
    assert isinstance(error_of("Error: No such file or directory\n", ""), NftablesNotFound)
    assert isinstance(error_of("Error: Operation not permitted\n", ""), NftablesUnavailable)
    assert str(error_of("", "")) == "nft failed without a message"
    assert len(error_of("x", "y" * 5000).script) == 2001


def test_command_passes_the_script_and_returns_the_output(tmp_path: Path) -> None:
    command = NftCommand(program(tmp_path, 'echo "$@"; cat'))
    assert asyncio.run(command.run("list tables\n")) == "-f -\nlist tables\n"
    assert asyncio.run(command.run("x", check=True)).startswith("--check -f -")


def test_command_that_fails(tmp_path: Path) -> None:
    command = NftCommand(program(tmp_path, "echo 'Error: syntax error' >&2; exit 1"))
    with pytest.raises(NftablesError, match="syntax error") as caught:
        asyncio.run(command.run("bad"))
    assert caught.value.script == "bad"


def test_old_and_missing_programs_are_named(tmp_path: Path) -> None:
    with pytest.raises(NftablesUnavailable, match=r"0\.9\.0 is too old"):
        asyncio.run(open_command(program(tmp_path, "echo nftables v0.9.0")))
    with pytest.raises(NftablesUnavailable, match=r"cannot be run .* install nftables"):
        asyncio.run(open_command(str(tmp_path / "none")))


def test_library_falls_back_to_the_command(tmp_path: Path) -> None:
    with pytest.raises(NftablesUnavailable, match="cannot be loaded"):
        open_library("libnone.so.1")
    found = asyncio.run(open_nftables("libnone.so.1", program(tmp_path, "echo nftables v1.0.6")))
    assert isinstance(found, NftCommand)
    with pytest.raises(NftablesUnavailable, match=r"install nftables \(libnone"):
        asyncio.run(open_nftables("libnone.so.1", str(tmp_path / "none")))


def test_library_without_the_functions_is_too_old() -> None:
    with pytest.raises(NftablesUnavailable, match="has no nft_ctx_new"):
        open_library("libc.so.6")
