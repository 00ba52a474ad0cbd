# SPDX-License-Identifier: Apache-2.0
"""Admission and resource allocation of pods on a node.

pod_workers ──▶ admit_handler ──▶ predicates (admit or reject); preemption for critical pods
            └─▶ allocator ──▶ allocations (per node)
resize compares the allocation with the spec and with what runs.
"""
