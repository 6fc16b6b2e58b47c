"""The files of this example: 500 of JSON lines in S3, a sensor's readings each, of which five cannot be read.

    python files.py BUCKET

It makes the bucket and the files where botocore looks: your AWS profile, or `AWS_ENDPOINT_URL`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError
from botocore.session import Session

FILES = 500
POISONED = {
    37: "its last line is cut off",
    138: "a text where the number should be",
    239: "no column of that name",
    340: "not text at all",
    441: "empty",
}


def rows(sensor: int) -> list[dict[str, Any]]:
    """The readings of a sensor: 40 to 46 of them, in quarters of a degree."""
    return [{"sensor": sensor, "minute": n, "celsius": (sensor * 7 + n * 3) % 160 / 4} for n in range(40 + sensor % 7)]


def body(sensor: int) -> bytes:
    """A file, as it is in S3."""
    lines = [json.dumps(row) for row in rows(sensor)]
    text = "\n".join(lines) + "\n"
    poisoned = {
        37: text[:-12],
        138: text.replace('"celsius": ', '"celsius": "warm", "was": ', 1),
        239: text.replace("celsius", "fahrenheit"),
        441: "",
    }
    return bytes(range(256)) * 8 if sensor == 340 else poisoned.get(sensor, text).encode()


def files() -> Iterator[tuple[str, bytes]]:
    """Keys and bodies."""
    for sensor in range(FILES):
        yield f"readings/{sensor:03}.jsonl", body(sensor)


def make(s3: Any, bucket: str) -> None:
    """Make the bucket, if it is not there, and the files."""
    try:
        s3.create_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] != "BucketAlreadyOwnedByYou":
            raise
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: s3.put_object(Bucket=bucket, Key=one[0], Body=one[1]), files()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bucket")
    bucket = parser.parse_args().bucket
    make(Session().create_client("s3"), bucket)
    print(f"{FILES} files in s3://{bucket}/readings/, {len(POISONED)} of them cannot be read")


if __name__ == "__main__":
    main()
