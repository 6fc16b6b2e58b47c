"""Code shared by the AWS adapters and by tools that call AWS: `clients` creates botocore clients of one session per process,
`direct_requests` sends frequent requests without them (over `signed_requests`), `event_patterns` matches the event patterns of
EventBridge. Nothing here knows an execution."""
