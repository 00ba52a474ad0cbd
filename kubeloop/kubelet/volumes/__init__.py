# SPDX-License-Identifier: Apache-2.0
"""Volumes of pods: a pod starts when they are attached, claimed and their contents exist.

pod_workers ──▶ mounter ──▶ attachments (attached?), claims (bound?), projected (ConfigMaps, Secrets exist?)
watch, restricted_watch ──▶ queue pods and nodes on changes; heartbeat writes volumesInUse
"""
