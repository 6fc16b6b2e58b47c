"""Redriving: `plan` decides which runs are taken back and what is kept of them, from the `lineage` of tokens and runs. Nothing
here reads a log."""
