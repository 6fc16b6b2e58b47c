"""Effects of a commit: `effects` derives them, `commands` are sent to workers. Both can be derived again from the log.

With eager dispatch, `asks` are answered in the decision that they lead to. Nothing here sends: `control.core` does.
"""
