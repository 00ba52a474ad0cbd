# SPDX-License-Identifier: Apache-2.0
"""Node agent (kubelet): runs the pods bound to its nodes, and reports the status of pods and nodes.

pods, nodes ──▶ pod workers: observe (Runtime) ─ decide ─ act (Runtime) ─ status ──▶ one patch of the changes,
        ▲                                                                           and the final delete
        └── woken by changes of the pod, and at the time when something is due

nodes ────────▶ heartbeat: Node, its Lease, its conditions

The code is independent of the runtime: containers are run behind `kubeloop.kubelet.runtime.Runtime`.
"""
