# SPDX-License-Identifier: Apache-2.0
"""`kubeloop cloud-controller-manager` program.

flags.py ─▶ run.py: leader election, then the cloud controllers of a provider
"""
