"""Empty lists that are always written: stored objects know no difference between empty and absent, so they are null."""

from __future__ import annotations

from typing import Any

from kubeloop.api.codec import force_setattr


def null_if_empty(owner: Any, *fields: str) -> None:
    for field in fields:
        if getattr(owner, field) == ():
            force_setattr(owner, field, None)
