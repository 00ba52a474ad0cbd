# SPDX-License-Identifier: Apache-2.0
"""Every source file names its licence."""

from __future__ import annotations

import pytest

from tools.license_headers import HEADER, ROOT, sources, with_header


def test_every_source_has_the_header() -> None:
    missing = [str(path.relative_to(ROOT)) for path in sources() if with_header(path.read_text()) != path.read_text()]
    assert missing == [], "run make format"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"""Doc."""\n', f'{HEADER}"""Doc."""\n'),
        (f'{HEADER}"""Doc."""\n', f'{HEADER}"""Doc."""\n'),
        ("#!/usr/bin/env python3\nx = 1\n", f"#!/usr/bin/env python3\n{HEADER}x = 1\n"),
        ("", HEADER),
    ],
)
def test_header_is_added_once(text: str, expected: str) -> None:
    assert with_header(text) == expected
    assert with_header(expected) == expected
