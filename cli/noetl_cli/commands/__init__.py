"""The commands, grouped by purpose. Each module registers its commands with the application when it is imported.

A command reads its arguments, calls a backend or the engine, and prints. What commands share is in the package above, not
here.
"""
