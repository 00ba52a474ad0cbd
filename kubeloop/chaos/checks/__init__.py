# SPDX-License-Identifier: Apache-2.0
"""Checks of a chaos run's guarantees.

load.py's operations (history.py) ─▶ linearizability.py, watch_order.py
load.py's calls ─▶ availability.py; elections.py ─▶ leadership.py; both use fault_timeline.py, time_constants.py
"""
