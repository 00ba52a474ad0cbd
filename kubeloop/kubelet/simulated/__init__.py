# SPDX-License-Identifier: Apache-2.0
"""Simulated runtime: runs nothing, and derives the behavior of containers from their commands and a script.

script (annotations, stage file) ─┐
command, image ───────────────────┴▶ plan of a run: its start, exit time and exit code ──▶ observe(now)

Nothing waits: the plan of a run is fixed at its start, and an observation depends on the clock alone.
"""
