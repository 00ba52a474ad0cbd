# SPDX-License-Identifier: Apache-2.0
"""The plugin of docs/scheduler.md, run as it is written there."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kubeloop.scheduler.framework import PerNodePlugin

PAGE = Path(__file__).parents[3] / "docs" / "scheduler.md"
FRIDAY, MONDAY = 5, 8  # of June 2026


@pytest.mark.parametrize(("day", "reason"), [(FRIDAY, "node(s) rest on Fridays"), (MONDAY, "")])
def test_plugin_of_the_guide_filters_nodes(day: int, reason: str) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    clock = SimpleNamespace(now=lambda: datetime(2026, 6, day, tzinfo=UTC))
    plugin = names["NotOnFridays"](SimpleNamespace(clock=clock), {})
    assert isinstance(plugin, PerNodePlugin)
    filter_node: Any = plugin.filter_node
    assert filter_node(None, None) == reason
    own = [name for name, value in vars(type(plugin)).items() if callable(value)]
    assert [name for name in own if not hasattr(PerNodePlugin, name)] == []
