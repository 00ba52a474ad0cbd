# SPDX-License-Identifier: Apache-2.0
"""Preemption: selects victims on nodes and evicts them in the background.

plugins.default_preemption ──▶ victims (dry run per node, choice of the node) ──▶ executor (evicts, wakes the pod)
"""
