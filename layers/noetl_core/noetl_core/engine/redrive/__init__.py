"""Redriving: `plan` decides which runs are taken back and which of their parts are kept, from the `lineage` of tokens and runs.
Nothing
here reads a log."""
