# SPDX-License-Identifier: Apache-2.0
"""The built site: complete, without requests to other hosts, and shown by a browser."""

from __future__ import annotations

import functools
import inspect
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.skips import NEEDS_TOOL
from tools.site.commands import commands_reference

SITE = Path(__file__).parents[2] / "build" / "site"
FACADE = ("kubeloop.operator", "kubeloop.testing", "kubeloop.client", "kubeloop.scheduler.framework")
_FETCHED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)")
_HEADLESS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
)


@pytest.fixture(scope="module")
def pages() -> list[Path]:
    """The pages of the site, which `make docs` has built."""
    found = sorted(SITE.rglob("*.html"))
    assert found, "no site: run make docs"
    return found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Address of the site on a free port."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_site_fetches_nothing_from_other_hosts(pages: list[Path]) -> None:
    fetched = {str(page.relative_to(SITE)): _FETCHED.findall(page.read_text()) for page in pages}
    assert {page: hosts for page, hosts in fetched.items() if hosts} == {}
    for sheet in SITE.rglob("*.css"):
        assert "url(http" not in sheet.read_text(), sheet


@pytest.mark.parametrize("module", FACADE)
def test_reference_has_every_public_class_and_function(module: str) -> None:
    imported = import_module(module)
    name = module.removeprefix("kubeloop.").replace(".", "-")
    shown = set(re.findall(rf'id="{re.escape(module)}\.(\w+)"', (SITE / "reference" / name / "index.html").read_text()))
    public = {one for one in imported.__all__ if inspect.isclass(thing := getattr(imported, one)) or callable(thing)}
    modules = {one: getattr(getattr(imported, one), "__module__", "") for one in public}
    # Types of the API are generated, without docstrings: upstream's reference describes them.
    documented = {one for one in public if modules[one].startswith("kubeloop") and "generated" not in modules[one]}
    lazy = set(getattr(imported, "_LATER", ()))
    assert documented - shown - lazy == set()


def test_reference_has_every_command_and_flag() -> None:
    text = commands_reference()
    for command in ("up", "apiserver", "controller-manager", "scheduler", "kubelet", "node", "chaos", "snapshot"):
        assert f"## kubeloop {command}\n" in text
    for flag in ("--ephemeral", "--etcd-servers", "--leader-elect", "--store"):
        assert f"`{flag}" in text


def rendered(url: str, folder: Path) -> str:
    """The document of a page after its scripts have run in a browser."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip(f"{NEEDS_TOOL}chromium")
    command = [browser, *_HEADLESS, f"--user-data-dir={folder}", "--virtual-time-budget=10000", "--dump-dom", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "Where to begin"),
        ("/tutorials/five-loops/", "replicaset controller"),
        ("/reference/commands/", "kubeloop up"),
    ],
)
def test_browser_shows_the_page(address: str, path: str, expected: str, tmp_path: Path) -> None:
    document = rendered(f"{address}{path}", tmp_path)
    assert expected in document
    assert re.search(r'<html[^>]*class="[^"]*\bjs\b', document), "the theme's script did not run"
    pictures = re.findall(r'<img[^>]* src="([^"]+)"', document)
    assert bool(pictures) is (path != "/reference/commands/")


def test_search_index_has_the_tutorials() -> None:
    indexed = {entry["location"] for entry in json.loads((SITE / "search" / "search_index.json").read_text())["docs"]}
    assert {"tutorials/first-cluster/", "tutorials/five-loops/", "reference/commands/"} <= indexed
