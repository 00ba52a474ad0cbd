# SPDX-License-Identifier: Apache-2.0
"""MkDocs hooks: pages from documents outside docs/, files that pages link to, and generated sections."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.site.commands import commands_reference

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Documents of the repository that are pages of the site.
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "DEVELOPMENT.md": "project/development.md",
    "GOVERNANCE.md": "project/governance.md",
    "README.md": "project/readme.md",
    "SECURITY.md": "project/security.md",
    "VERSIONING.md": "project/versioning.md",
    "bench/README.md": "measurements.md",
}
_LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
_COMMANDS = "<!-- reference of the commands -->"
_DECISIONS = "<!-- list of decisions -->"


def on_files(files: Any, config: Any) -> Any:
    """Add the documents outside docs/, and the other files of the repository that documents link to."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        if (ROOT / source).exists():
            files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    linked = {target for source in _documents() for target in _linked_files(source)}
    for path in sorted(linked):
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Insert generated sections, and point links at the site's pages."""
    uri = page.file.src_uri
    source = next((origin for origin, made in PAGES.items() if made == uri), f"docs/{uri}")
    if _COMMANDS in markdown:
        markdown = markdown.replace(_COMMANDS, commands_reference())
    if _DECISIONS in markdown:
        markdown = markdown.replace(_DECISIONS, decisions())
    return site_links(markdown, source, uri)


def site_links(markdown: str, source: str, uri: str) -> str:
    """Return a document with its links to files of the repository replaced by links within the site."""

    def replace(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["path"]))
        if target.startswith("docs/") and target.endswith("/"):
            target = f"{target}index.md"
        page = _page_of(target)
        if page is None:
            return match["text"].strip("!")[1:-1]  # a folder has no page: the text alone
        relative = posixpath.relpath(page, posixpath.dirname(uri) or ".")
        return f"{match['text']}({relative}{match['anchor'] or ''})"

    return _LINK.sub(replace, markdown)


def decisions() -> str:
    """Return a list of the architecture decision records."""
    records = sorted((DOCS / "adr").glob("[0-9]*.md"))
    return "\n".join(f"- [{_title_of(record)}]({record.name})" for record in records)


def _title_of(record: Path) -> str:
    return record.read_text().partition("\n")[0].removeprefix("# ")


def _page_of(target: str) -> str | None:
    """Return the page or file of the site for a file of the repository; None if it has none."""
    if target in PAGES:
        return PAGES[target]
    if target.startswith("docs/"):
        inner = target.removeprefix("docs/")
        if (ROOT / target).is_dir():
            return f"{inner}/index.md" if (ROOT / target / "index.md").exists() else None
        return inner
    return f"files/{target}" if (ROOT / target).is_file() else None


def _documents() -> Iterator[str]:
    yield from (source for source in PAGES if (ROOT / source).exists())
    yield from (str(path.relative_to(ROOT)) for path in sorted(DOCS.rglob("*.md")))


def _linked_files(source: str) -> Iterator[str]:
    """Yield the files outside docs/, other than pages, that a document links to."""
    for match in _LINK.finditer((ROOT / source).read_text()):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["path"]))
        if target not in PAGES and not target.startswith("docs/") and (ROOT / target).is_file():
            yield target
