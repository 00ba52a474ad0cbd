# SPDX-License-Identifier: Apache-2.0
"""Tests of `-o/--output`: every command that prints data has it, with the formats and spellings of kubectl."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kubeloop.cli.main import COMMANDS, build_parser, main
from kubeloop.cli.program.output import ResultPrinter, format_document, format_table
from kubeloop.store import open_store

# Commands whose output is a log, or a script for a shell.
SERVERS = ("apiserver", "balancer", "cloud-controller-manager", "controller-manager", "dns", "kubelet")
SERVERS += ("network", "proxy", "scheduler")
WITHOUT_DATA = {*(f"kubeloop {name}" for name in SERVERS), "kubeloop completion"}


def _commands() -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of all commands that run something: those of actions instead of their command's."""
    for name in COMMANDS:
        yield from _leaves(build_parser(name))


def _leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    nested = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not nested or not nested[0].required:
        yield parser
    for action in nested:
        for one in action.choices.values():
            yield from _leaves(one)


@pytest.mark.parametrize("parser", [pytest.param(one, id=one.prog) for one in _commands()])
def test_every_command_that_prints_data_has_output_formats(parser: argparse.ArgumentParser) -> None:
    flags = {text: action for action in parser._actions for text in action.option_strings}
    if parser.prog in WITHOUT_DATA:
        assert "--output" not in flags
        return
    output = flags["--output"]
    assert output is flags["-o"]
    assert output.choices is not None
    assert {"json", "yaml"} <= set(output.choices) <= {"json", "yaml", "name"}
    assert output.default == ""


def test_document_is_the_same_as_json_and_yaml() -> None:
    document = {"clusters": [{"name": "a", "ports": {"scheduler": 1}, "ready": True}]}
    assert json.loads(format_document(document, "json")) == document
    assert yaml.safe_load(format_document(document, "yaml")) == document
    assert format_document({}, "json") == "{}"


def test_columns_are_aligned_without_spaces_at_the_end() -> None:
    assert format_table([("NAME", "STATUS"), ("long-name", "")]) == "NAME        STATUS\nlong-name"


@pytest.mark.parametrize(
    ("output", "shown"),
    [("", "node/a added\ncluster 'b' stopped\n"), ("name", "node/a\ncluster/b\n")],
)
def test_results_are_printed_line_by_line(output: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    printer = ResultPrinter(output)
    printer.report("node", "a", "added")
    printer.report("cluster", "b", "stopped", "cluster 'b' stopped")
    assert capsys.readouterr().out == shown
    printer.close()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_results_are_one_document(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    printer = ResultPrinter(output)
    printer.report("node", "a", "added")
    assert capsys.readouterr().out == ""
    printer.close()
    assert yaml.safe_load(capsys.readouterr().out) == {"results": [{"kind": "node", "name": "a", "result": "added"}]}


def test_version_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "-o", "json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"kubeloop", "kubernetes", "python"}


def test_schedule_of_a_plan_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.yaml"
    faults = [
        {"fault": "kill", "targets": ["apiserver"], "every": "5s"},
        {"fault": "errors", "chance": 0.05},
    ]
    plan.write_text(
        json.dumps(
            {"apiVersion": "kubeloop.dev/v1alpha1", "kind": "ChaosPlan", "seed": 1, "duration": "1m", "faults": faults}
        )
    )
    assert main(["chaos", "show", str(plan), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schedule"][0]["fault"], document["calls"]) == ("kill", [{"fault": "errors", "chance": 0.05}])
    assert main(["chaos", "show", str(plan)]) == 0
    assert capsys.readouterr().out.startswith("AT ")


def test_copies_of_a_store_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*arguments: str) -> dict[str, object]:
        assert main([*arguments, "-o", "json"]) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    folder, file = tmp_path / "a", str(tmp_path / "snapshot")
    folder.mkdir()
    store, copy = f"sqlite:{folder / 'store.db'}", f"sqlite:{tmp_path / 'b.db'}"
    asyncio.run(_create(store))
    assert shown("snapshot", "save", file, "--store", store) == {"file": file, "revision": 2}
    assert shown("migrate", "--from", store, "--to", copy) == {"source": store, "target": copy, "revision": 2}
    restored = shown("snapshot", "restore", file, "--store", copy, "--force", "--bump-revision", "0")
    assert (restored["source"], restored["target"]) == (file, copy)
    fork = str(tmp_path / "c")
    assert shown("snapshot", "fork", str(folder), fork) == {"source": str(folder), "target": fork}


async def _create(url: str) -> None:
    store = open_store(url)
    await store.start()
    await store.write("/registry/a", b"{}")
    await store.close()
