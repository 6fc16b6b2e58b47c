"""Tests of the project; README.md maps modules to tests."""

import os

# Before botocore is imported: requests are signed as in Lambda, whose layer has no awscrt.
os.environ["BOTO_DISABLE_CRT"] = "true"
