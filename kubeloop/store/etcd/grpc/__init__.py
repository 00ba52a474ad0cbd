"""Minimal gRPC client for etcd.

client.py: members, failover, retries ─▶ http2.py: one connection ─▶ streams.py: unary and streaming responses
hpack.py: header blocks. wire.py: protobuf encoding.
"""
