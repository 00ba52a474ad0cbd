"""Requests to revisions, and revisions to watches: the only gateway to the state.

http ──▶ app: who? may they? ──▶ endpoints (one a verb) ──▶ mutation: own, admit, prepare, validate ──▶ store
  ▲                                  │ view: stored bytes + revision                                   │ events
  └── responses, streams ◀───────────┴──────────────── watching: one frame for all watchers ◀──────────┘
"""
