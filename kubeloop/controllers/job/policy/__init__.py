"""Policies of a job: pod failure policy, success policy and backoff. Pure."""
