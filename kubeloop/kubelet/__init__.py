"""The node agent: makes pods that are bound to its nodes run, and tells how they and the nodes are.

pods, nodes ──▶ worker: observe (Runtime) ─ decide ─ act (Runtime) ─ status ──▶ one patch of what changed
                   ▲                                                            and the last delete
                   └── woken by changes of the pod, and at the moment when something is due
nodes ────────▶ heartbeat: Node, its Lease, its conditions

One code for every runtime: what runs containers is behind `kubeloop.kubelet.runtime.Runtime`.
"""
