# SPDX-License-Identifier: Apache-2.0
"""Informer event handlers of the scheduler, as upstream's `eventhandlers.go`.

They apply events of nodes and pods to the cache, the queue and the nominator.
"""
