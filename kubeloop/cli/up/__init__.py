"""`kubeloop up`: the whole control plane in one process.

flags.py ─▶ run.py: API server ─▶ controllers.py, scheduler.py, cloud.py (each elected by election.py), nodes.py
default_storage_class.py creates the default StorageClass.
"""
