"""Operates on existing executions: `operate` (cancel, pause, resume, signal), `redrive`, and `backfill`, which runs missed
occurrences. Starting is not here (`admit`)."""
