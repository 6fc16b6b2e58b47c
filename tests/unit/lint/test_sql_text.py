"""SQL of PostgreSQL: what it takes is not reported, what no server parses is."""

from __future__ import annotations

import pytest

from noetl_core.dsl.lint.sql_text import wrong_for

GOOD = r"""
SELECT 1
SELECT id, name FROM orders WHERE id = $1
SELECT * FROM t WHERE a = ANY(%s) AND b = %(x)s
SELECT x::int[], y::timestamptz AT TIME ZONE 'UTC', INTERVAL '1 day', INTERVAL '1' YEAR FROM t
SELECT a FROM t FOR UPDATE SKIP LOCKED LIMIT 1
SELECT a FROM t ORDER BY a NULLS LAST FETCH FIRST 5 ROWS ONLY
SELECT * FROM t TABLESAMPLE BERNOULLI (10)
SELECT * FROM ROWS FROM (generate_series(1,3), generate_series(1,4)) WITH ORDINALITY AS x(a,b,c)
SELECT * FROM unnest(ARRAY[1,2]) WITH ORDINALITY AS t(v, n)
SELECT a OPERATOR(pg_catalog.+) b FROM t
SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b DESC
SELECT a, count(*) FILTER (WHERE b > 1) OVER (PARTITION BY c ORDER BY d ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM t
SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY b RANGE BETWEEN '1 day' PRECEDING AND '1 day' FOLLOWING EXCLUDE TIES)
SELECT a FROM t GROUP BY GROUPING SETS ((a), (b), ()), CUBE (c, d)
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t
SELECT data->>'a', data#>>'{a,b}', data @> '{}'::jsonb, data ? 'x', data ?| array['a'], data - 'k', data #- '{a}' FROM t
SELECT jsonb_path_query(data, '$.a[*] ? (@ > 1)') FROM t
SELECT E'a\nb', U&'\0061', B'101', X'1F', $$dollar ' text$$, $tag$ x $tag$
INSERT INTO t (a, b) VALUES (1, DEFAULT) ON CONFLICT (a) WHERE b > 1 DO UPDATE SET b = EXCLUDED.b WHERE t.b <> EXCLUDED.b RETURNING *
INSERT INTO t DEFAULT VALUES RETURNING id
INSERT INTO t OVERRIDING SYSTEM VALUE SELECT * FROM s ON CONFLICT DO NOTHING
INSERT INTO t AS x (a) VALUES (1) ON CONFLICT ON CONSTRAINT t_pk DO UPDATE SET (a, b) = (EXCLUDED.a, 1)
UPDATE t SET (a, b) = (SELECT 1, 2), c = DEFAULT FROM s WHERE t.id = s.id RETURNING t.*
UPDATE ONLY t AS x SET a[1] = 2, b.c = 3 WHERE CURRENT OF cur
DELETE FROM t USING s WHERE t.id = s.id RETURNING t.id
WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 5) SELECT * FROM x
WITH d AS MATERIALIZED (DELETE FROM t RETURNING *) INSERT INTO s SELECT * FROM d
WITH RECURSIVE s AS (SELECT 1 AS a UNION SELECT a+1 FROM s) SEARCH DEPTH FIRST BY a SET o CYCLE a SET c USING p SELECT * FROM s
SELECT a FROM t WHERE (a, b) IN ((1, 2), (3, 4)) AND (a, b) OVERLAPS (c, d)
SELECT * FROM a NATURAL LEFT JOIN b CROSS JOIN LATERAL (SELECT * FROM c WHERE c.id = a.id) x
SELECT * FROM a JOIN b USING (id) AS j
SELECT CASE a WHEN 1 THEN 'x' ELSE 'y' END, COALESCE(a, b), NULLIF(a, b), GREATEST(1, 2) FROM t
SELECT EXTRACT(epoch FROM ts), POSITION('a' IN b), SUBSTRING(a FROM 1 FOR 2), TRIM(BOTH ' ' FROM a), OVERLAY(a PLACING 'x' FROM 1) FROM t
SELECT a IS DISTINCT FROM b, a IS NOT NULL, a ISNULL, a NOTNULL, a IS UNKNOWN, a BETWEEN SYMMETRIC 1 AND 2, a SIMILAR TO 'x', a ~ 'x', a !~* 'y' FROM t
SELECT ROW(1, 2), (t).a, (t).*, t.*, ARRAY(SELECT 1), ARRAY[[1,2],[3,4]], a[1:2] FROM t
SELECT CAST(a AS numeric(10, 2)), a COLLATE "C", xmlelement(name foo), current_date, current_timestamp(3), localtime FROM t
SELECT string_agg(a, ',' ORDER BY b), array_agg(DISTINCT a ORDER BY a) FROM t HAVING count(*) > 1
SELECT 1 UNION ALL (SELECT 2 EXCEPT SELECT 3) INTERSECT SELECT 4 ORDER BY 1 OFFSET 2 ROWS
SELECT make_interval(days => 3), format('%%s', a) FROM t
SELECT * FROM json_to_recordset('[]') AS x(a int, b text)
SELECT * FROM json_table('[]'::jsonb, '$[*]' COLUMNS (id FOR ORDINALITY, a int PATH '$.a')) AS jt
SELECT json_object('a' : 1), json_array(1, 2 NULL ON NULL), '{}' IS JSON OBJECT
SELECT nextval('seq'), setval('seq'::regclass, 1), pg_try_advisory_xact_lock(hashtext('x'))
SELECT a INTO TEMP x FROM t
SELECT FROM t WHERE a
SELECT
VALUES (1, 2), (3, 4) ORDER BY 1
TABLE t
SELECT ALL a AS "A b", b c FROM "S"."T" AS x (a, b)
SELECT * FROM t, LATERAL unnest(a) u WHERE EXISTS (SELECT 1) AND a > ALL (SELECT 2) AND b = SOME (ARRAY[1])
SELECT a ^ 2, |/ a, !! 3, @ a, a & b, a # b, ~ a, a << 1, a || b, a <@ b, a && b, a <-> b FROM t
SELECT * FROM ONLY t WHERE a ILIKE %s ESCAPE '\\' OR a LIKE ANY (%s)
INSERT INTO t VALUES (%s, %s::jsonb, now() - interval '1 hour')
INSERT INTO t (a) SELECT x FROM unnest(%(ids)s::int[]) AS x
MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = s.a WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)
SELECT pg_sleep(1); SELECT 2;
DO $$ BEGIN PERFORM 1; END $$
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1; $$
COPY t FROM STDIN
EXPLAIN (ANALYZE, BUFFERS) SELECT 1
SET LOCAL statement_timeout = '5s'
SELECT a FROM t WHERE ts >= %s::date AND ts < %s::date + 1
SELECT a.b.c.d FROM x AS a
SELECT count(*) AS n, date_trunc('day', ts) AS day, user, "user" FROM t GROUP BY 2
SELECT a AS value, b AS type, c AS name, d key, e AS end FROM t
SELECT values, type, key, name, date, time, timestamp, text, value, status, level, action, index, day, month FROM t
SELECT order_id, "order" FROM "order" AS o, "group" g
UPDATE jobs SET status = 'running', started = now(), attempts = attempts + 1 WHERE id = (SELECT id FROM jobs WHERE status = 'new' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id, payload
SELECT xpath('/a', x), xmlparse(content '<a/>') FROM t
SELECT (SELECT 1), NOT a, - a, + a, a % 2 FROM t
SELECT * FROM crosstab('select 1') AS ct(row text, a int)
SELECT a FROM t FOR NO KEY UPDATE OF t NOWAIT
SELECT ts AT LOCAL, ts::time with time zone, 1::double precision, 'x'::character varying(3), '1'::bit(3) FROM t
DELETE FROM ONLY t WHERE NOT EXISTS (SELECT FROM s WHERE s.id = t.id)
INSERT INTO t (a, b[1]) VALUES ((SELECT 1), '{1}')
SELECT DISTINCT a FROM t WHERE a NOT IN (SELECT b FROM s) LIMIT ALL OFFSET 0
SELECT grouping(a), a FROM t GROUP BY DISTINCT ROLLUP (a, (b, c))
SELECT 1_000, 0x1F, 0b11, 1e10, .5, 5.
SELECT a FROM t WHERE b = '%' AND c LIKE 'x%%'
""".strip().splitlines()
"""Each is parsed by PostgreSQL's own grammar."""
BAD = """
SELEC 1
SELECT id, FROM orders WHERE
SELECT FROM WHERE
SELECT * FORM orders
SELECT * FROM orders WHERE id = = 1
SELECT * FROM orders WHERE (id = 1
SELECT * FROM orders GROUP id
INSERT INTO orders (a, b VALUES (1, 2)
UPDATE orders a = 1
SELECT * FROM orders WHERE id IN 1, 2
SELECT * FROM orders ORDER id
SELECT count(* FROM orders
SELECT a b c FROM t
INSERT INTO t VALUES (1, 2
""".strip().splitlines()


@pytest.mark.parametrize("text", GOOD)
def test_sql_that_postgresql_parses_is_not_reported(text: str) -> None:
    assert wrong_for("postgres", text) is None


@pytest.mark.parametrize("text", BAD)
def test_sql_that_postgresql_does_not_parse_is_reported(text: str) -> None:
    assert wrong_for("postgres", text) is not None


@pytest.mark.parametrize(
    "text", ["INSTALL x; LOAD x", "SELECT * FROM read_csv('no-such-file')", "SELECT " + "(" * 9000, "SELECT {{ a }} FORM t"]
)
def test_duckdb_sql_is_not_executed_nor_reported_behind_a_template(text: str) -> None:
    found = wrong_for("duckdb", text)
    assert found is None


LONG = "SELECT count(*) AS bad, min(id) AS example, max(id) AS greatest FROM orders WHERE "


def test_the_place_in_a_long_line_of_duckdb_is_exact() -> None:
    found = wrong_for("duckdb", f"SELECT 1;\n{LONG}WHERE state = 1 ORDER BY state, example, greatest, bad, and_one_more")
    assert found is not None
    assert (found.line, found.column) == (2, len(LONG) + 1)


def test_behind_a_template_in_a_long_line_nothing_is_reported() -> None:
    assert wrong_for("duckdb", LONG + "state IN ({{ iter.check.sql }}) AND AND id > 0") is None
