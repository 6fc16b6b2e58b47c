"""The network of tasks: `addresses` decides which of them a task may reach, `lookups` resolves names. No connection is made
here."""
