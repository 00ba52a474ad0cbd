# SPDX-License-Identifier: Apache-2.0
"""Chaos testing: executes a plan of faults on a control plane and checks its guarantees.

plan.py ─▶ run.py: starts plane.py (processes.py), injects faults/, generates load.py ─▶ checks/ ─▶ report.py
"""
