"""Schedules of triggers: `occurrences` lists the instants of a schedule, `schedules` decides which of them start, wait, are
skipped or were missed. Nothing here reads a clock."""
