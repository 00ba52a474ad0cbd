"""Faults of a chaos plan.

run.py ─▶ disturbances.py: faults of one process, with partition.py, clocks.py and membership.py
API server ─▶ calls.py: faults of calls and watches
"""
