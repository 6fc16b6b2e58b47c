"""The ports over AWS services.

* DynamoDB: `events`, and the adapters of the `catalog_table`, over `table` (requests: `noetl_core.aws.direct_requests`).
* Lambda: `asks`. SQS: `queue`, `gathering` (full requests), `dead_letters` and `webhooks` (signed webhook requests). S3:
  `results`, `object_writer` and `inbox`. Secrets Manager: `secrets` and `keys`. KMS: `sealer`.
* `clients` creates the clients, `named` creates adapters from the environment. `functions` is shared by the Lambda functions.

No module here decides anything about executions. The resources themselves are declared in `template.yaml`.
"""
