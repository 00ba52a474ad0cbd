"""A process that is handed its transport pays for no HTTP, TLS or YAML."""

from __future__ import annotations

import subprocess
import sys

# What asyncio itself loads, such as ssl, costs nothing more.
COSTLY = ("yaml", "httptools", "cryptography", "kubeloop.client.http.tls", "kubeloop.api.generated.core_v1")


def test_importing_the_client_loads_only_what_every_user_needs() -> None:
    program = "import sys, kubeloop.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert "kubeloop.client.client" in loaded
    assert loaded.isdisjoint(COSTLY)
