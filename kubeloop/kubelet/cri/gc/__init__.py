# SPDX-License-Identifier: Apache-2.0
"""Garbage collection of a real node.

log_manager (every 10 s): rotates logs; container_gc (every minute): dead containers, sandboxes, logs of removed pods
image_gc (every five minutes): images nothing uses, if the disk is full; the images in the status of the node
"""
