# SPDX-License-Identifier: Apache-2.0
"""`kubeloop scheduler` and `kubeloop why-pending`.

flags.py: KubeSchedulerConfiguration and flags ─▶ run.py: leader election, then the scheduler
pending_diagnosis.py: reasons why a pod is pending
"""
