"""The operand behind an exception of a python task."""

from __future__ import annotations

import pytest

from tests.unit.tools.python_calls import Python, lines, python, tool

__all__ = ["lines", "python", "tool"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param(
            "rates = {'A': 1.1, 'B': 0.9}\nreturn rates['C']", "KeyError: 'C' (rates has: 'A', 'B')", id="a key that is missing"
        ),
        pytest.param("return {}['C']", "KeyError: 'C'", id="a mapping without a name"),
        pytest.param("found = {}\nresult = found['C']", "KeyError: 'C' (found is empty)", id="an empty mapping"),
        pytest.param(
            "many = {f'{n:03}': n for n in range(1000)}\nmany['x' * 50]",
            f"KeyError: '{'x' * 50}' (many has: {', '.join(repr(f'{n:03}') for n in range(8))}, and 992 more)",
            id="many keys",
        ),
        pytest.param(
            "def net(order):\n    return order['price'] / 1.19\nresult = sum(net(o) for o in [{'id': 1, 'price': None}])",
            "TypeError: order['price'] is None: unsupported operand type(s) for /: 'NoneType' and 'float'",
            id="an operand that is None",
        ),
        pytest.param(
            "rows = {'first': [None]}\nresult = rows['first'][0]['id']",
            "TypeError: rows['first'][0] is None: 'NoneType' object is not subscriptable",
            id="a part of None",
        ),
        pytest.param(
            "class Order: pass\nname = None\nname.upper()",
            "AttributeError: name is None: 'NoneType' object has no attribute 'upper'",
            id="an attribute of None",
        ),
        pytest.param(
            "rows = None\nfor row in rows: pass", "TypeError: rows is None: 'NoneType' object is not iterable", id="a loop"
        ),
        pytest.param("item = 617\n1000 / (item - 617)", "ZeroDivisionError: division by zero (item - 617 is 0)", id="a divisor"),
        pytest.param("1 / 0", "ZeroDivisionError: division by zero", id="a constant divisor"),
        pytest.param(
            "None + 1", "TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'", id="a constant that is None"
        ),
        pytest.param("int(5).__mod__(0)", "ZeroDivisionError: integer modulo by zero", id="a division inside a call"),
        pytest.param("prices = [1, 2]\nprices[2]", "IndexError: list index out of range (prices has 2 items)", id="an index"),
        pytest.param(
            "a = b = None\na + b",
            "TypeError: unsupported operand type(s) for +: 'NoneType' and 'NoneType'",
            id="two that are None",
        ),
        pytest.param("'ä'; rates = {'ä': 1}; rates['ö']", "KeyError: 'ö' (rates has: 'ä')", id="columns in bytes"),
    ],
)
def test_the_message_names_it(python: Python, code: str, message: str) -> None:
    outcome = python(code)
    assert outcome.error is not None and outcome.error.message == message


HOSTILE = """
class Keys(dict):
    def __iter__(self): raise SystemExit
    def __getitem__(self, key): raise KeyError(key)
    def __len__(self): return 10 ** 9
    def __repr__(self): raise SystemExit
class Key(str):
    def __repr__(self): raise SystemExit
    def __hash__(self): return 1
    def __eq__(self, other): raise SystemExit
class Odd(TypeError):
    def __str__(self): return "NoneType"
"""


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("Keys({Key('a'): 1})['b']", "KeyError"),
        ("keys = Keys({Key('a'): 1})\nkeys['b']", "KeyError"),
        ("x = None\nraise Odd(x)", "Odd"),
        ("f = None\nf()", "TypeError"),
        (
            "import linecache; linecache.cache.clear(); linecache.cache['<code>'] = (1, None, ['return ' * 9], '<code>')\n{}['x']",
            "KeyError",
        ),
        ("import json\njson.loads(None)", "TypeError"),
    ],
)
def test_objects_of_authors_run_no_code_and_change_no_type(python: Python, code: str, name: str) -> None:
    outcome = python(HOSTILE + code)
    assert outcome.error is not None and outcome.error.code == name
