# SPDX-License-Identifier: Apache-2.0
"""Parts of the documentation site: links of documents, the reference of commands, pictures of terminals."""

from __future__ import annotations

import argparse
import re
from xml.etree import ElementTree

import pytest

from kubeloop.cli.main import COMMANDS, build_parser
from tools.site.commands import commands_reference
from tools.site.hooks import PAGES, ROOT, decisions, site_links
from tools.site.terminal import draw


@pytest.mark.parametrize(
    ("source", "page", "link", "expected"),
    [
        ("docs/nodes.md", "nodes.md", "[a](flags.md#x)", "[a](flags.md#x)"),
        ("docs/how-to/kopf.md", "how-to/kopf.md", "[a](../../ARCHITECTURE.md)", "[a](../architecture.md)"),
        ("README.md", "project/readme.md", "[a](docs/nodes.md)", "[a](../nodes.md)"),
        ("README.md", "project/readme.md", "[a](docs/adr)", "[a](../adr/index.md)"),
        ("docs/index.md", "index.md", "[a](../LICENSE)", "[a](files/LICENSE)"),
        ("docs/index.md", "index.md", "see [examples](../examples)", "see examples"),
        ("docs/index.md", "index.md", "[a](https://kubernetes.io/)", "[a](https://kubernetes.io/)"),
    ],
)
def test_links_point_into_the_site(source: str, page: str, link: str, expected: str) -> None:
    assert site_links(link, source, page) == expected


def test_pages_outside_docs_exist() -> None:
    assert [source for source in PAGES if not (ROOT / source).exists()] == []


def test_all_decisions_are_listed() -> None:
    assert decisions().count("\n- ") + 1 == len(list((ROOT / "docs" / "adr").glob("0*.md")))


def test_reference_has_every_flag_of_every_command() -> None:
    text = commands_reference()
    for name in COMMANDS:
        assert f"## kubeloop {name}\n" in text
        shown = [one for one in build_parser(name)._actions if one.help != argparse.SUPPRESS and one.dest != "help"]
        flags = [flag for action in shown for flag in action.option_strings]
        assert [flag for flag in flags if not re.search(rf"{re.escape(flag)}[ ,`]", text)] == []


def test_terminal_picture_shows_every_line() -> None:
    picture = ElementTree.fromstring(draw("shell", "$ echo <a>\n<a>\n\n$ true\n"))
    texts = ["".join(element.itertext()) for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["shell", "$ echo <a>", "<a>", "$ true"]
