"""Writes docs/controllers.md from the docstrings of the loops: `python -m tools.document_controllers`."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

from kubeloop import cloud
from kubeloop.controllers import CONTROLLERS, ControllerDescriptor

TARGET = Path(__file__).parent.parent / "docs" / "controllers.md"
PARTS = ("Watches", "Owns", "Writes", "Wakes itself", "Differs from upstream")
HEAD = """# The loops

Generated from the loops' own words; `make generate` writes it anew. Names are upstream's, with the older one in
brackets. All run unless it is said that they don't. Those of [a cloud](#the-clouds-loops) come last.
"""
CLOUD = """# The cloud's loops

They are those of `kubeloop cloud-controller-manager`, and run where [a provider](cloud-providers.md) offers what they
need.
"""


def document() -> str:
    """The whole text."""
    return "\n".join([HEAD, *map(_section, CONTROLLERS), CLOUD, *map(_cloud_section, cloud.CONTROLLERS)])


def _section(one: ControllerDescriptor) -> str:
    if not one.is_available:
        return f"{_title(one)}\n\nNot there yet.\n"
    return _told(one, f"kubeloop.controllers.{one.module}", _when(one))


def _cloud_section(one: cloud.CloudControllerDescriptor) -> str:
    return _told(one, f"kubeloop.cloud.{one.module}", "")


def _title(one: ControllerDescriptor | cloud.CloudControllerDescriptor) -> str:
    return f"## {one.name}" + (f" ({one.alias})" if one.alias else "")


def _told(one: ControllerDescriptor | cloud.CloudControllerDescriptor, module: str, when: str) -> str:
    promise, parts = read_docstring(import_module(module).__doc__ or "")
    lines = [_title(one), "", f"{promise}{when}", ""]
    lines += [f"- *{name}*: {parts[name]}" for name in PARTS if name in parts]
    return "\n".join([*lines, ""])


def _when(one: ControllerDescriptor) -> str:
    said = [] if one.on_by_default else [" Runs only when it is asked for."]
    if one.gates:
        said.append(f" Needs the feature {', '.join(f'`{gate}`' for gate in one.gates)}.")
    return "".join(said)


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The promise, and what is said of each part; drawings and remarks between them are left to whoever reads code."""
    promise = " ".join(text.strip().partition("\n\n")[0].split())
    parts: dict[str, str] = {}
    for name in PARTS:
        found = re.search(rf"^{name}:\s(.*?)(?=^(?:{'|'.join(PARTS)}):|\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
        if found is not None:
            parts[name] = " ".join(found[1].split())
    return promise, parts


def main() -> int:
    TARGET.write_text(document())
    return 0


if __name__ == "__main__":
    sys.exit(main())
