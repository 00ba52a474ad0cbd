# SPDX-License-Identifier: Apache-2.0
"""In-process transport: clients of the same process call the server without HTTP and serialization.

client ──▶ transport.InProcessTransport ──▶ app: authorize ──▶ handlers, registry
transport ◀── watch.hub (events as shared structs), stream (bodies of streamed responses)
"""
