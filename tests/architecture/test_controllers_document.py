"""The document of the loops says of each what it does, watches, writes and differs in, and is up to date."""

from __future__ import annotations

from importlib import import_module

import pytest

from kubeloop.controllers import CONTROLLERS, Descriptor
from tools.document_controllers import PARTS, TARGET, document, read_docstring

LOOPS = [one for one in CONTROLLERS if one.is_available]


def test_the_document_is_what_the_docstrings_say() -> None:
    assert TARGET.read_text() == document(), "run `make generate`"


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: str(loop.name))
def test_every_loop_says_what_it_does_and_where_it_differs(loop: Descriptor) -> None:
    promise, parts = read_docstring(import_module(f"kubeloop.controllers.{loop.module}").__doc__ or "")
    assert promise.endswith(".")
    assert tuple(parts) == PARTS
