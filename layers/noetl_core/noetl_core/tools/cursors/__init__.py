"""Sources of cursor loops: how rows are claimed, how a claim is prolonged, and how its rows are settled.

A source makes inputs of tool calls and reads their results; it touches nothing itself. `base` has the port and finds the source
of a kind; `postgres`, `sqs` and `dynamodb` are such; `dynamodb_requests` says what is asked of DynamoDB. When the calls are made
is said in `worker.loop_frames`.
"""
