# SPDX-License-Identifier: Apache-2.0
"""A process that takes part in the same election by the official Python client's implementation.

python -m tests.contract.election_candidate_official KUBECONFIG NAME
"""

from __future__ import annotations

import sys
import threading

from kubernetes import config  # type: ignore[import-untyped]
from kubernetes.leaderelection import electionconfig, leaderelection  # type: ignore[import-untyped]
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock  # type: ignore[import-untyped]


def main() -> None:
    kubeconfig, name = sys.argv[1:]
    config.load_kube_config(kubeconfig)
    settings = electionconfig.Config(
        LeaseLock("contract", "default", name),
        lease_duration=3,
        renew_deadline=2,
        retry_period=1,
        onstarted_leading=threading.Event().wait,
        onstopped_leading=None,
    )
    leaderelection.LeaderElection(settings).run()


if __name__ == "__main__":
    main()
