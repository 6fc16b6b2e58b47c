"""What all tools that talk to AWS's services stand on: `clients`, `rights` (what a worker may reach) and `errors`.

Nothing else of `noetl_core.tools` imports botocore. The kinds themselves are modules beside this package.
"""
