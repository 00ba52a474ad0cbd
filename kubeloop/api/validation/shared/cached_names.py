# SPDX-License-Identifier: Apache-2.0
"""Cached checks of names, because the same names recur with every object of a workload.

Only short texts are cached, so that invalid names can't fill the memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kubeloop.api.meta.name_rules import (
    Check,
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_value,
    check_qualified_name,
)

MAX_CACHED_LENGTH: Final = 320


def _remembered(check: Check) -> Check:
    kept = lru_cache(8192)(check)

    def answer(value: str) -> list[str]:
        return kept(value) if len(value) <= MAX_CACHED_LENGTH else check(value)

    return answer


label_messages: Final = _remembered(check_dns1123_label)
subdomain_messages: Final = _remembered(check_dns1123_subdomain)
key_messages: Final = _remembered(check_qualified_name)
value_messages: Final = _remembered(check_label_value)
