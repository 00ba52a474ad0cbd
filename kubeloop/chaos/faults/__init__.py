# SPDX-License-Identifier: Apache-2.0
"""Faults of a chaos plan.

run.py ─▶ process_faults.py: faults of one process, with partition.py, clocks.py and membership.py
API server ─▶ call_faults.py: faults of calls and watches
"""
