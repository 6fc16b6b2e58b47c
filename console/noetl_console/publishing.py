"""Uploads the pages to the bucket of a stack that serves them beside its API (parameter `Console` of template.yaml).

The keys of files contain a content hash as their version, so browsers cache them forever; `index.html` refers to the version and
is revalidated each time. The previous version is kept for pages that are still open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from noetl_console.assets import INDEX, Asset, assets

FOR_GOOD = "public, max-age=31536000, immutable"
EACH_TIME = "no-cache"
API = '<meta name="noetl-api" content="./">'
SIGN_IN = '<meta name="noetl-sign-in" content="">'
PUBLISHED = {API: '<meta name="noetl-api" content="../">', SIGN_IN: '<meta name="noetl-sign-in" content="settings.json">'}
"""Replacements in `index.html`: the relative URL of `/api`, and of the gateway's settings for signing in."""


@dataclass(frozen=True, slots=True)
class File:
    """An object of the bucket."""

    content_type: str
    cache_control: str
    body: bytes


def published(found: Mapping[str, Asset] | None = None) -> dict[str, File]:
    """Return every file by its key, `index.html` last."""
    pages = assets() if found is None else found
    version = sha256("".join(f"{name} {asset.etag}\n" for name, asset in sorted(pages.items())).encode()).hexdigest()[:16]
    files = {
        f"{version}/{name}": File(asset.content_type, FOR_GOOD, asset.body) for name, asset in pages.items() if name != INDEX
    }
    index = pages[INDEX].body.decode()
    for tag, instead in PUBLISHED.items():
        if tag not in index:
            raise ValueError(f"{INDEX} lacks {tag}")
        index = index.replace(tag, instead)
    index = re.sub(r'\b(href|src)="', rf'\1="{version}/', index)
    return {**files, INDEX: File(pages[INDEX].content_type, EACH_TIME, index.encode())}


def publish(s3: Any, bucket: str, found: Mapping[str, Asset] | None = None) -> str:
    """Upload the pages to a bucket, and return their version. The previous version is kept, older ones are deleted. `s3` is a
    client of botocore, whose exceptions are raised."""
    files = published(found)
    version = _version(files[INDEX].body)
    before = _before(s3, bucket)
    if before != version:
        for key, file in files.items():
            s3.put_object(Bucket=bucket, Key=key, Body=file.body, ContentType=file.content_type, CacheControl=file.cache_control)
        _forget(s3, bucket, {version, before})
    return version


def _version(index: bytes) -> str:
    found = re.search(rb'src="([0-9a-f]{16})/', index)
    return found[1].decode() if found else ""


def _before(s3: Any, bucket: str) -> str:
    """Return the version in the bucket; empty if there is none."""
    try:
        return _version(s3.get_object(Bucket=bucket, Key=INDEX)["Body"].read())
    except s3.exceptions.NoSuchKey:
        return ""


def _forget(s3: Any, bucket: str, kept: set[str]) -> None:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for each in page.get("Contents", []):
            if re.match(r"[0-9a-f]{16}/", each["Key"]) and each["Key"][:16] not in kept:
                s3.delete_object(Bucket=bucket, Key=each["Key"])
