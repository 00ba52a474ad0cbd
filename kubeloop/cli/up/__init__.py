# SPDX-License-Identifier: Apache-2.0
"""`kubeloop up`: the whole control plane in one process.

flags.py ─▶ run.py: API server, scheduler ─▶ controllers.py, cloud.py, nodes.py
election.py: leader election of the scheduler and the controllers, if the store is shared.
"""
