"""The table of all events: what each is about, what it does, and since which version logs have it.

A new event needs a row here, its payload (`control`, `runs`), its place in a union (`event`) and, in the control stream, its
effect on the state (`engine.fold`). Code that asks for the kind of an event uses the sets below.
"""
