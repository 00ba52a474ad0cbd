# SPDX-License-Identifier: Apache-2.0
"""Names outside of the cluster: forwarded to upstream resolvers, with a cache.

question ──▶ AnswerCache ── miss ──▶ DnsForwarder: one exchange per question, several upstreams, one deadline
                                        └──▶ UpstreamResolver.exchange: UDP, then TCP if the response is truncated
"""
