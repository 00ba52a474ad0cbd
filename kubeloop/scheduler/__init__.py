"""Gives every pod a node: a queue of pods, arrays that know the nodes, plugins that say no or how much they like it.

informers ──▶ handlers ──▶ queue (active, backing off, unschedulable) ──▶ cycle: filter, score, choose ──▶ binding
                 └───────▶ cluster: one row a node, updated where something changed ──▲ assumed pods

Nothing here imports numpy until there is a node: `engine` and what is below it is loaded then.
"""
