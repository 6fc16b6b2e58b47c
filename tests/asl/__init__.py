"""Runs a state machine on the emulator's Step Functions and, imported, on NoETL, with the same scripted answers of its tasks, and
compares status, output, errors and calls: `python -m tests.asl FILE...`.

* `cases` reads a file of cases. `emulator` runs one on MiniStack, `imported` as a playbook in virtual time.
* `random_machines` has random machines, and an interpreter of them. `compare` says what differs. What is not the machine's own is left out: the metadata of services, ids of executions, types of
  DynamoDB's values, white space of JSON within text.
"""
