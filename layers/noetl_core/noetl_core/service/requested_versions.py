"""Reads which version of a playbook a request names."""

from __future__ import annotations

from noetl_core.api.refused import BadRequest
from noetl_core.dsl.versions import BadVersion, Version, split_version, version_of


def path_and_version(path: str, version: object) -> tuple[str, Version]:
    """Return the path and the version of a request, whose path may be `path@version`. Raises `BadRequest`."""
    try:
        bare, at = split_version(path)
        own_version = version_of(version)
    except BadVersion as error:
        raise BadRequest(str(error), "body.version") from None
    if at is not None and own_version is not None:
        raise BadRequest(f"{path} names a version, and `version` is {own_version}", "body.version", "leave one of them out")
    return bare, at if own_version is None else own_version
