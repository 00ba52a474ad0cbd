"""The document of the loops says of each what it does, watches, writes and differs in, and is up to date."""

from __future__ import annotations

from importlib import import_module

import pytest

from kubeloop import cloud
from kubeloop.controllers import CONTROLLERS
from tools.document_controllers import PARTS, TARGET, document, read_docstring

LOOPS = [f"kubeloop.controllers.{one.module}" for one in CONTROLLERS if one.is_available]
LOOPS += [f"kubeloop.cloud.{one.module}" for one in cloud.CONTROLLERS]


def test_the_document_is_what_the_docstrings_say() -> None:
    assert TARGET.read_text() == document(), "run `make generate`"


@pytest.mark.parametrize("module", LOOPS)
def test_every_loop_says_what_it_does_and_where_it_differs(module: str) -> None:
    promise, parts = read_docstring(import_module(module).__doc__ or "")
    assert promise.endswith(".")
    assert tuple(parts) == PARTS
