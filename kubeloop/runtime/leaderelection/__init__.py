# SPDX-License-Identifier: Apache-2.0
"""Leader election on a Lease.

LeaderElector (leader_elector.py) acquires and renews the lease ─▶ moves the Fence (fence.py)
FencedTransport rejects the leader's writes as soon as the fence is closed.
"""
