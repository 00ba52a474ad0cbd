"""The plugins, one file each; `kubeloop.scheduler.framework.registry` is the literal table of them.

Each looks at all nodes at once: `filter` and `score` are given rows of the cluster's arrays and answer with an array.
"""
