# SPDX-License-Identifier: Apache-2.0
"""Isolation of a pod: the handler of its RuntimeClass, and its user namespace.

RuntimeClass (informer) ─▶ handler ─▶ does the runtime have it (Status), with which features ─▶ ID mappings of the pod
"""
