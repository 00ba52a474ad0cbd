# SPDX-License-Identifier: Apache-2.0
"""`kubeloop controller-manager` program.

flags.py ─▶ run.py: leader election, then the controllers. effective_flags.py: flags without effect. status.py: command
"""
