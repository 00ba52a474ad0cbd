# SPDX-License-Identifier: Apache-2.0
"""Container manager of real nodes: control groups, CPUs, memory, devices and their topology.

pod ─▶ container_manager ─▶ cgroups: kubepods ─ burstable, besteffort ─ pods
  │                     └─▶ node_allocatable: what pods may use of the machine (pure)
  └─▶ resource_managers ─▶ topology: aligns ─▶ cpus, memory, devices: what containers have for themselves
"""
