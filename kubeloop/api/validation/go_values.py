"""Refused values in the order and spelling that upstream shows them in.

Upstream prints some refused values as its internal structures: capitalised names, fields in their own order, absent
ones as null. A rule that shows such a value lists its fields; `ordered` keeps their order.
"""

from __future__ import annotations

from typing import Any

import msgspec


def ordered(fields: dict[str, Any]) -> msgspec.Raw:
    """A JSON object whose fields are shown in the order given."""
    return msgspec.Raw(msgspec.json.encode(fields, enc_hook=str))
