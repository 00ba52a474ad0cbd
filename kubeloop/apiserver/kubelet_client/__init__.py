"""Nodes that are not of this process: each has a kubelet, which is asked over HTTPS as upstream's API server does.

node ─▶ addressing: where, and what for ─▶ trust: connected, and sure to whom ─┬▶ a request: logs, pages
                                                                               └▶ SPDY: exec, attach, ports
"""
