"""`kubeloop scheduler` and `kubeloop why-pending`.

flags.py: KubeSchedulerConfiguration and flags ─▶ run.py: leader election, then the scheduler. why_pending.py: diagnosis
"""
