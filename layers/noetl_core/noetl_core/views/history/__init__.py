"""Reads histories of executions: `pages` in order, `event_pages` from a position, and stored `objects`.

Nothing here interprets events (`explain`).
"""
