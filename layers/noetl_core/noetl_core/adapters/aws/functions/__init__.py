"""Shared by the Lambda functions: `cold_start` makes imports faster, `snapstart` prepares clients for SnapStart, `invocation`
knows the remaining time, `concurrent_calls` handles several messages of an invocation at the same time, `telemetry` sends traces
to X-Ray. No handler is here (`functions`)."""
