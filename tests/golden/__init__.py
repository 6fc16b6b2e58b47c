"""Golden histories: logs of executions as they were recorded, one for each feature of the language, replayed forever.

What is recorded here is what users' logs hold. A change that makes a history come out differently makes replays of running
executions differ too: it is the code that must keep to the history, not the other way round. `python -m tests.golden.record`
records histories that are not there yet; it writes over one only when told to (`--force NAME`).
"""
