"""The commands, grouped by purpose. Each module registers its commands with the application when it is imported; what
commands share is in the package above."""
