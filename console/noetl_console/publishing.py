"""The pages in a bucket, for a stack that has them beside its API (parameter `Console` of template.yaml).

Files lie under a version that is made of what is in them, so that a browser keeps them for good; `index.html` names the version
and is asked for each time. Who has an older page open finds its files until two more versions have come.
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
"""What the first file says of where it is: beside `/api`, and beside what the gateway says of signing in."""


@dataclass(frozen=True, slots=True)
class File:
    """An object of the bucket."""

    content_type: str
    cache_control: str
    body: bytes


def published(found: Mapping[str, Asset] | None = None) -> dict[str, File]:
    """Every file by its key, `index.html` last."""
    pages = assets() if found is None else found
    version = sha256("".join(f"{name} {asset.etag}\n" for name, asset in sorted(pages.items())).encode()).hexdigest()[:16]
    files = {
        f"{version}/{name}": File(asset.content_type, FOR_GOOD, asset.body) for name, asset in pages.items() if name != INDEX
    }
    index = pages[INDEX].body.decode()
    for said, instead in PUBLISHED.items():
        if said not in index:
            raise ValueError(f"{INDEX} says no {said}")
        index = index.replace(said, instead)
    index = re.sub(r'\b(href|src)="', rf'\1="{version}/', index)
    return {**files, INDEX: File(pages[INDEX].content_type, EACH_TIME, index.encode())}


def publish(s3: Any, bucket: str) -> str:
    """Bring the pages into a bucket, and return their version. Those of the version before stay, older ones go. `s3` is a
    client of botocore's, whose exceptions are raised."""
    files = published()
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
    """The version that is there; empty: there is none."""
    try:
        return _version(s3.get_object(Bucket=bucket, Key=INDEX)["Body"].read())
    except s3.exceptions.NoSuchKey:
        return ""


def _forget(s3: Any, bucket: str, kept: set[str]) -> None:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for each in page.get("Contents", []):
            if re.match(r"[0-9a-f]{16}/", each["Key"]) and each["Key"][:16] not in kept:
                s3.delete_object(Bucket=bucket, Key=each["Key"])
