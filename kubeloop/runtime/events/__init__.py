# SPDX-License-Identifier: Apache-2.0
"""Event recording for controllers.

EventRecorder.event (recorder.py) ─▶ queue ─▶ correlator.py (core group) or series.py (events.k8s.io) ─▶ create or patch
"""
