# SPDX-License-Identifier: Apache-2.0
"""Bound of every wait in the tests: a test that hangs fails; one that is slow on a loaded machine does not."""

from __future__ import annotations

from typing import Final

GIVE_UP_SECONDS: Final = 180.0
# Bound of a test that runs a program with tests of its own.
SUITE_GIVE_UP_SECONDS: Final = 900.0
