# SPDX-License-Identifier: Apache-2.0
"""Routes, neighbours and links of the kernel.

kernel_state.py: desired and actual state ──▶ difference.py: operations ──▶ kernel.py: netlink (pyroute2), in a thread
"""
