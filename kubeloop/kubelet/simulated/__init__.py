"""A runtime that runs nothing and behaves as if it did: what containers do is read off their commands and a script.

script (annotations, stage file) ─┐
command, image ───────────────────┴▶ course of a run: when it starts, ends and with which code ──▶ observe(now)

Nothing waits: a run's course is known when it begins, and what is seen of it depends on the clock alone.
"""
