"""Scheduler framework: the plugin interface and the profiles that run plugins.

config ──▶ registry (name ─▶ plugin class) ──▶ profile (plugins by extension point) ──▶ cycle, queue
plugin and per_node_plugin are the base classes; handle gives plugins the client, informers and nominator;
status holds the results of plugins (status, PreFilter result, diagnosis); normalize scales scores.
"""
