# SPDX-License-Identifier: Apache-2.0
"""gRPC server at a Unix socket: unary and server-streaming methods, within limits on every dimension.

socket ─▶ listener.GrpcServer ─▶ connection.ServerConnection ─ frame_reader: frames ─ header_decoder: headers
                                      ▲ │ ServerCall: one task per call
     frame_writer: flow control ──────┘ └▶ methods: requests to messages, messages to responses
"""
