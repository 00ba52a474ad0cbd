# SPDX-License-Identifier: Apache-2.0
"""CNI plugin `kubeloop-policy`: reports the addresses of a new pod to the agent, and waits until its policies are set.

The agent installs a copy of this file as a program, so it uses the standard library only. It comes last in the chain.
An agent that does not answer is no reason to fail: the agent's rules drop packets of unknown addresses while there is
any policy.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

_VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
_SECONDS = 12.0  # a little more than the agent waits


def main() -> int:
    """Handle one CNI command; returns the exit code."""
    command = os.environ.get("CNI_COMMAND", "")
    config: dict[str, Any] = json.load(sys.stdin)
    version = config.get("cniVersion", _VERSIONS[-1])
    if command == "VERSION":
        json.dump({"cniVersion": version, "supportedVersions": _VERSIONS}, sys.stdout)
        return 0
    if command in ("ADD", "DEL"):
        _report(config, build_report(command, config, os.environ))
    if command == "ADD":
        json.dump(config.get("prevResult") or {"cniVersion": version}, sys.stdout)
    return 0


def build_report(command: str, config: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the report of a command: the pod of CNI_ARGS, and the addresses that earlier plugins have set."""
    pairs = (part.partition("=") for part in environment.get("CNI_ARGS", "").split(";"))
    arguments = {key: value for key, _, value in pairs}
    addresses = [one["address"].partition("/")[0] for one in (config.get("prevResult") or {}).get("ips", ())]
    return {
        "command": command,
        "namespace": arguments.get("K8S_POD_NAMESPACE", ""),
        "name": arguments.get("K8S_POD_NAME", ""),
        "uid": arguments.get("K8S_POD_UID", ""),
        "addresses": addresses,
    }


def _report(config: Mapping[str, Any], report: Mapping[str, Any]) -> None:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(config["socket"])
            connection.sendall(json.dumps(report).encode() + b"\n")
            answer = json.loads(connection.makefile("rb").readline() or b"{}")
        if answer.get("error"):
            sys.stderr.write(f"kubeloop-policy: {answer['error']}\n")
    except (OSError, KeyError, ValueError) as error:
        sys.stderr.write(f"kubeloop-policy: the agent does not answer: {error}\n")


if __name__ == "__main__":
    sys.exit(main())
