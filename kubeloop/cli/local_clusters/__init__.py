# SPDX-License-Identifier: Apache-2.0
"""Clusters on this machine: names, data folders and records of the running ones.

up ── claim a name ─▶ run/NAME.json, locked while it runs ◀── status, stop, delete
   └─ data ─▶ clusters/NAME: store.db, pki/, admin.conf, cluster.json (kubeconfig and context, for delete)
"""
