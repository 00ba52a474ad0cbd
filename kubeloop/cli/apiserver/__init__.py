"""`kubeloop apiserver` program.

flags.py (unsupported.py: rejected flags) ─▶ run.py: ServerConfig ─▶ start_server; kubelet_client.py: access to nodes
"""
