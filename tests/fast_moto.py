"""moto's `mock_aws`, without what botocore's clients do not need and what took most of the time of its beginning."""

from __future__ import annotations

from moto import mock_aws
from moto.core import models

__all__ = ["mock_aws"]

models.RESPONSES_METHODS.clear()
"""moto also answers the library `requests`, for which it makes 1,300 answers each time it begins (22 ms)."""
