# SPDX-License-Identifier: Apache-2.0
"""Scheduling queue: pods waiting for a node, and the events that requeue them.

event_handlers ─ add, update, move ─▶ scheduling_queue ─ pop ─▶ cycle loop ─ put back ─▶ scheduling_queue
queueing_hints asks plugins if a cluster_event helps a pod; in_flight_events keeps the events that occur during
an attempt; queued_pod_info is an entry of the queue; nominator holds the pods nominated to nodes by preemption.
"""
