"""Volumes of pods: a pod starts when they are attached, claimed and their contents exist.

pod_worker ──▶ mounter ──▶ attachments (attached?), claims (bound?), projected (ConfigMaps, Secrets exist?)
watch, restricted_watch ──▶ wake pods and nodes on changes; heartbeat writes volumesInUse
"""
