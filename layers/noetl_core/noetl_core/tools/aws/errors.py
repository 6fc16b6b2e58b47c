"""Errors of AWS's services as outcomes, by one table for all kinds (docs/language/results.md, "Errors")."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore import exceptions as aws
from botocore.exceptions import BotoCoreError, ClientError

from noetl_core.aws.clients import TOO_LARGE, code_of, status_of
from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.rights import Right
from noetl_core.tools.base import ToolFailed

DENIED: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "AuthorizationError", "AuthorizationErrorException", "KMSAccessDeniedException",
     "UnauthorizedOperation", "AllAccessDisabled", "AccountProblem", "403", "Forbidden"}
)  # fmt: skip
"""The service knows the caller, and refuses."""
UNKNOWN_CALLER: Final = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidSignatureException", "UnrecognizedClientException", "ExpiredToken",
     "ExpiredTokenException", "InvalidClientTokenId", "IncompleteSignature", "MissingAuthenticationToken", "InvalidToken",
     "RequestExpired", "RequestTimeTooSkewed", "NotAuthorized", "OptInRequired"}
)  # fmt: skip
"""The service does not accept the credentials."""
NOT_FOUND: Final = frozenset(
    {"NoSuchKey", "NoSuchBucket", "NoSuchVersion", "NoSuchUpload", "404", "NotFound", "NotFoundException", "NotFoundFault",
     "ResourceNotFoundException", "ResourceNotFound", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue",
     "TableNotFoundException", "ClusterNotFoundException"}
)  # fmt: skip
THROTTLED: Final = frozenset(
    {"ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "ThrottledException", "Throttled",
     "RequestLimitExceeded", "LimitExceededException", "TooManyRequestsException", "SlowDown", "RequestThrottled", "OverLimit",
     "KmsThrottled", "EC2ThrottledException", "SendingQuotaExceeded", "429"}
)  # fmt: skip
CONFLICT: Final = frozenset(
    {"TransactionConflictException", "TransactionInProgressException", "OperationAborted", "ConditionalRequestConflict",
     "ResourceInUseException", "ResourceConflictException"}
)  # fmt: skip
"""Another request is changing the same resource: a retry is appropriate."""
TIMED_OUT: Final = frozenset({"RequestTimeout", "RequestTimeoutException"})


@contextmanager
def errors_of(kind: str, right: Right | None = None, name: str = "", passing: frozenset[str] = frozenset()) -> Iterator[None]:
    """Turn errors of botocore in the block into `ToolFailed`, which `invoke` turns into the outcome of the task; errors whose
    code is in `passing` are not changed. If access is denied, the outcome names the parameter of `right`, for the resource
    `name`."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        if isinstance(error, ClientError) and code_of(error) in passing:
            raise
        raise ToolFailed(outcome_of(kind, error, right, name)) from error


def outcome_of(kind: str, error: ClientError | BotoCoreError, right: Right | None = None, name: str = "") -> Outcome:
    """Return the outcome for `error`, of a task of `kind`."""
    if isinstance(error, ClientError):
        return _answered(kind, error, right, name)
    failed, message = _unanswered(error)
    return Outcome.failed(failed, f"{kind}: {message}", code=type(error).__name__)


def _answered(kind: str, error: ClientError, right: Right | None, name: str) -> Outcome:
    code, status = code_of(error), status_of(error)
    reason = str(error.response.get("Error", {}).get("Message", "")) or code
    message = f"{kind}: {error.operation_name}: {reason}" + (f" ({code})" if code not in reason else "")
    if code in DENIED:
        hint = _hint(right, name)
        return Outcome.failed("auth", message + hint, retryable=False, code=code, details={"status": status})
    found, retryable = _kind_of(code, status, reason)
    return Outcome.failed(found, message, retryable=retryable, code=code, details={"status": status})


def _kind_of(code: str, status: int, reason: str) -> tuple[ErrorKind, bool]:
    if code in UNKNOWN_CALLER:
        return "auth", False
    if code in NOT_FOUND:
        return "not_found", False
    if code in THROTTLED:
        return "rate_limit", True
    if code in TIMED_OUT:
        return "timeout", True
    if code in TOO_LARGE or (code == "ValidationException" and "size has exceeded" in reason):
        return "limit", False
    if code in CONFLICT:
        return "server_error", True
    if status >= 500:
        return "server_error", True
    if status in (401, 403):
        return "auth", False
    return ("rate_limit", True) if status == 429 else ("client_error", False)


def _hint(right: Right | None, name: str) -> str:
    if right is None or not rights.on_stack():
        return ""
    target = f" to `{name}`" if name else ""
    return (
        f"; the stack's parameter {right.parameter} grants access{target},"
        f" unless a policy of the {right.noun} or of its key denies it"
    )


def _unanswered(error: BotoCoreError) -> tuple[ErrorKind, str]:
    """Return the kind and the message for a missing answer."""
    if isinstance(
        error, aws.NoCredentialsError | aws.PartialCredentialsError | aws.CredentialRetrievalError | aws.TokenRetrievalError
    ):
        return "auth", f"{error}: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if isinstance(error, aws.ProfileNotFound | aws.SSOError):
        return "auth", str(error)
    if isinstance(error, aws.NoRegionError):
        return "schema", f"{error} Set AWS_DEFAULT_REGION, or a Region in the AWS profile"
    if isinstance(error, aws.ParamValidationError | aws.UnknownParameterError | aws.InvalidRegionError):
        return "schema", str(error)
    if isinstance(error, aws.ConnectTimeoutError | aws.ReadTimeoutError):
        return "timeout", str(error)
    if isinstance(error, aws.HTTPClientError | aws.ConnectionError):
        return "connection", str(error)
    return "unknown", f"{type(error).__name__}: {error}"
