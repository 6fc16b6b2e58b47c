"""Operations on existing executions: `operate` (cancel, pause, resume, signal), `redrive`, and `backfill`, which makes up for
missed occurrences. Starting is not here (`admit`)."""
