# SPDX-License-Identifier: Apache-2.0
"""Structured log messages: a constant sentence and named values, as klog's structured logging has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class LogMessage:
    """Message of a log record. As text it is klog's form: `"Reconcile failed" controller="job" object="default/a"`."""

    __slots__ = ("fields", "text")

    def __init__(self, text: str, /, **fields: Any) -> None:
        self.text = text
        self.fields: Mapping[str, str] = {name: str(value) for name, value in fields.items() if value is not None}

    def __str__(self) -> str:
        return " ".join((_quoted(self.text), *(f"{name}={_quoted(value)}" for name, value in self.fields.items())))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
