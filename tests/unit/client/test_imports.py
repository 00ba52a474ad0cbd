# SPDX-License-Identifier: Apache-2.0
"""A process that is handed its transport pays for no HTTP, TLS or YAML."""

from __future__ import annotations

import subprocess
import sys

from tests.bounds import GIVE_UP_SECONDS

# Modules loaded by asyncio itself, such as ssl, are free.
COSTLY = ("yaml", "httptools", "cryptography", "kubeloop.client.http.tls", "kubeloop.api.generated.core_v1")


def test_importing_the_client_loads_few_modules() -> None:
    program = "import sys, kubeloop.client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=GIVE_UP_SECONDS, check=True
    )
    loaded = set(done.stdout.split())
    assert "kubeloop.client.client" in loaded
    assert loaded.isdisjoint(COSTLY)
