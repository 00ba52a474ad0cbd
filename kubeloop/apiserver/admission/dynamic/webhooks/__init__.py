"""Webhooks: others who are asked about a write, over HTTPS, before it is stored.

configurations ─▶ hooks, in order ─▶ matching (rules, selectors, conditions) ─┬─ mutating: one after the other, patches
                                                                              └─ validating: all at once
each call: review (what is told, what may be answered) ─▶ calling (how it can fail, and what a client hears of that)
"""
