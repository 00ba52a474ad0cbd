# SPDX-License-Identifier: Apache-2.0
"""Pods of workload controllers: creation from a template, deletion order, disruption condition, listing.

pod_control creates and deletes with events on the owner; deletion_order ranks pods for a scale-down;
batching sets the delay before a sync of many pods; coalesced_list shares concurrent live lists.
"""
