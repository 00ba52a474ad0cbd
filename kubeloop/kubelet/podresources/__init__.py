# SPDX-License-Identifier: Apache-2.0
"""PodResources API of a real node: the CPUs, memory, devices and resource claims that its containers have.

monitoring agent ─ List, Get, GetAllocatableResources ─▶ server ─▶ providers: the resource managers
"""
