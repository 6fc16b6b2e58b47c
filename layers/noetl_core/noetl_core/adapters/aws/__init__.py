"""The ports over AWS services.

* DynamoDB: `events`, `catalog`, `index`, `gates`, `triggers`, `tokens`, `rates`, `limits`, `output` and `key_values`, over
  `table`.
* SQS: `queue`, `gathering` (full requests), `dead_letters` and `webhooks` (signed webhook requests). S3: `results`,
  `object_writer` and `inbox`. Secrets Manager: `secrets` and `keys`. KMS: `sealer`.
* `clients` creates the clients, `named` creates adapters from the environment, `snapshots` prepares them for SnapStart,
  `cold_start` makes the import of handlers faster.
* `invocation` (remaining time) and `side_by_side` (concurrent calls) are shared by the Lambda functions.

No module here decides anything about executions. The resources themselves are declared in `template.yaml`.
"""
