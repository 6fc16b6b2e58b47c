"""Code shared by the AWS adapters and by tools that call AWS: `clients` creates botocore clients of one session per process,
`dynamodb` sends frequent requests without them, `event_patterns` matches the event patterns of EventBridge. Nothing here knows
an execution."""
