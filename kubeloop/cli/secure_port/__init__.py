# SPDX-License-Identifier: Apache-2.0
"""HTTPS port of the managers and the scheduler.

server.py: listens ─▶ authz.py: authentication and authorization by the API server ─▶ status_pages.py: content
clients.py: the program's API clients.
"""
