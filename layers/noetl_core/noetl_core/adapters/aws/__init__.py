"""The ports over AWS services.

* DynamoDB: `events`, `catalog`, `index`, `gates`, `triggers`, `tokens`, `rates`, `limits` and `key_values`, over `table`.
* SQS: `queue`, `gathering` (full requests), `dead_letters` and `webhooks` (signed requests on their way). S3: `results`,
  `object_writer` and `inbox`. Secrets Manager: `secrets` and `keys`. KMS: `sealer`.
* `clients` makes the clients, `named` makes adapters from the environment, `snapshots` prepares them for SnapStart, `cold_start`
  is for the import of handlers.
* `invocation` and `side_by_side` are what the Lambda functions share: time that is left, and calls at the same time.

No module here decides anything about executions. The resources themselves are declared in `template.yaml`.
"""
