# SPDX-License-Identifier: Apache-2.0
"""Checks that the controllers document is generated from the docstrings and up to date."""

from __future__ import annotations

from importlib import import_module

import pytest

from kubeloop import cloud
from kubeloop.controllers import CONTROLLERS
from tools.document_controllers import PARTS, TARGET, document, read_docstring

LOOPS = [f"kubeloop.controllers.{one.module}" for one in CONTROLLERS]
LOOPS += [f"kubeloop.cloud.{one.module}" for one in cloud.CONTROLLERS]


def test_document_matches_the_docstrings() -> None:
    assert TARGET.read_text() == document(), "run `make generate`"


@pytest.mark.parametrize("module", LOOPS)
def test_every_controller_docstring_has_purpose_and_differences(module: str) -> None:
    promise, parts = read_docstring(import_module(module).__doc__ or "")
    assert promise.endswith(".")
    assert tuple(parts) == PARTS
