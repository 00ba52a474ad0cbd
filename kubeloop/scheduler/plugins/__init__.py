# SPDX-License-Identifier: Apache-2.0
"""Scheduler plugins, one file each; `kubeloop.scheduler.framework.registry` is the table of them.

Each evaluates all nodes at once: `filter` and `score` receive rows of the cluster's arrays and return an array.
nodes holds plugins that look at the node object, volumes those about storage, shared the code of several plugins.
"""
