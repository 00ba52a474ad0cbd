# SPDX-License-Identifier: Apache-2.0
"""CPU manager of a real node: exclusive CPUs of Guaranteed containers, and the shared pool of the others.

CpuManager ─┬▶ static_policy ─▶ cpu_packer, cpu_distributor: choose CPUs by the topology (pure)
            ├▶ state: the checkpoint `cpu_manager_state`
            └▶ reconcile loop: cpusets of running containers, through CRI
"""
