"""Worlds whose time, chance and faults we decide.

VirtualLoop: an event loop that jumps to its next timer ──▶ VirtualClock: what the plane asks for time and chance
"""
