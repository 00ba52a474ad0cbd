# SPDX-License-Identifier: Apache-2.0
"""Checks that workflows, hooks and templates are valid and call make targets that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
DOCUMENTS = ("CONTRIBUTING", "DEVELOPMENT", "SECURITY", "CODE_OF_CONDUCT", "GOVERNANCE", "VERSIONING", "CHANGELOG")
_MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")


def targets() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def steps(workflow: Path) -> list[dict[str, Any]]:
    """Return the steps of all jobs of a workflow."""
    return [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_calls_make_targets(workflow: Path) -> None:
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    for command in commands:
        assert "make " in command
        assert set(_MAKE.findall(command)) <= targets()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_has_limits(workflow: Path) -> None:
    content = yaml.safe_load(workflow.read_text())
    assert content["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in content["jobs"].values())


def test_workflows_run_every_step_of_the_checks() -> None:
    ci = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    wanted = set(_MAKE.findall((ROOT / ".ci" / "run").read_text())) - {"explore"}  # which runs every night
    matrix = set(yaml.safe_load(ci)["jobs"]["test"]["strategy"]["matrix"]["target"])
    assert wanted <= set(_MAKE.findall(ci)) | matrix
    assert matrix <= targets()


def test_hooks_call_make_targets() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {hook["entry"].removeprefix("make ") for hook in hooks} <= targets()


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.name)
def test_issue_form_has_its_fields(form: Path) -> None:
    content = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= set(content)
    assert len({field["id"] for field in content["body"]}) == len(content["body"])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_exists_and_begins_with_a_title(name: str) -> None:
    assert (ROOT / f"{name}.md").read_text().startswith("# ")
