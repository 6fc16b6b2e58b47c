"""The ports over AWS services: DynamoDB (`events`, `catalog`), SQS (`queue`, `dead_letters`), S3 (`results`, `inbox`),
Secrets Manager (`secrets`, `keys`), KMS (`sealer`); and `invocation`, what the Lambda functions share.

No module here decides anything about executions. The resources themselves are declared in `template.yaml`.
"""
