# SPDX-License-Identifier: Apache-2.0
"""Simulation of time and randomness.

VirtualLoop (loop.py): event loop that jumps to its next timer ─▶ VirtualClock: time and randomness of the components
"""
