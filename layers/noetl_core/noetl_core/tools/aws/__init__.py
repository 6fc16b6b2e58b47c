"""The kinds that call AWS services. Nothing else of `noetl_core.tools` imports botocore.

* All of them use `clients`, `rights` (what a worker may access) and `errors`.
* `s3`, with `s3_bodies` (reading and writing objects of any size) and `globs` (patterns of keys).
* `allowed_addresses` checks the addresses of endpoints that authors name, `signing` signs requests of the kind `http`.
* `object_files` reads objects as the sources of other kinds.
* `sqs`, `sns` and `eventbridge` use `messages`; `dynamodb` (with `attributes`, its types) and `functions` (`kind: lambda`).
* `email` sends mail with SES.
"""
