"""Sources of cursor loops: how rows are claimed, how a claim is prolonged, and how its rows are settled.

A source builds inputs of tool calls and reads their results; it makes no calls itself. `base` has the port and finds the source
of a kind: `postgres`, `sqs` or `dynamodb`; `dynamodb_requests` builds the requests to DynamoDB. `worker.loops.frames` makes the
calls.
"""
