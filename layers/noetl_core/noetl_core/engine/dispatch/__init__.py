"""What follows from a commit: `effects` derives it, `commands` are sent to workers. Both can be derived again from the log.

With eager dispatch, `asks` are answered in the decision that they lead to. Nothing here sends: `control.core` does.
"""
