"""Templates: Jinja2 expressions in a sandbox with budgets, over plain data (docs/language/expressions.md; resolutions 7, 8,
14, 15, 22).

* `render(value, scope)` evaluates every template in a value; `truthy(when, scope)` evaluates a condition.
* `compile_text(source)` and `referenced(value)` give what validation and the engine need to know before.
* `Scope`, `Pointer`, `is_reference`: the names that a template sees, and lazy reads of results that are stored elsewhere.
* `references_in`, `replaced`: finding references inside data, and replacing them.
* `Secret`, `reveal`, `mask`, `contains_secret`: taint of secrets.
* Errors (`errors`): `TemplateError` <- `TemplateSyntaxError`, `UndefinedValue`, `LimitExceeded`, `NoCredential`,
  `CredentialRefused`, `CredentialFailed`.

Modules: `compiled`, `environment` and `lexer` compile a text with Jinja2, `calls` finds calls of unknown functions;
`rendering`, `evaluation` and `reading` run the code within a `budget` of `evaluation_limits`, with `operators`, `functions`,
`methods`, `filters`, `formatting` and `patterns`; `scope`, `references`, `secret`, `strict`, `values` and `views` are the data
it works on.

Pure: no input or output, and no clock except the processor time that a budget counts. Values that are stored elsewhere are
requested from the scope's `resolve`. `engine` and `worker` decide when a template is evaluated and how its value is used.

Rules. A text that is one `{{ expression }}` (ignoring white space around it) keeps the type of the value; other text with
templates results in text, which is never parsed again. In such text, values are formatted like in Jinja2 (`None`, `True`,
Python notation for lists and mappings, nothing for undefined), because existing playbooks depend on it; `| tojson` produces
JSON. Data has precedence over methods: `ctx.items` is the key `items` if it exists. `x.headers[...]` ignores the case of the
name. Results are JSON data: tuples, ranges and values of filters become lists, keys become text. Nothing is escaped for HTML.
"""

from noetl_core.expr.calls import unknown_calls
from noetl_core.expr.compiled import Compiled, Read, compile_text, is_template, referenced
from noetl_core.expr.errors import (
    CredentialFailed,
    CredentialRefused,
    LimitExceeded,
    NoCredential,
    TemplateError,
    TemplateSyntaxError,
    UndefinedValue,
)
from noetl_core.expr.evaluation_limits import Limits
from noetl_core.expr.filters import FILTERS, TESTS
from noetl_core.expr.functions import FUNCTIONS
from noetl_core.expr.methods import METHODS
from noetl_core.expr.references import path_text, references_in, replaced
from noetl_core.expr.rendering import load, render, truthy
from noetl_core.expr.scope import Pointer, Scope
from noetl_core.expr.secret import LOST, MASK, Secret, contains_lost, contains_secret, mask, reveal
from noetl_core.expr.strict import Fields, Strict
from noetl_core.values.result_refs import is_reference

__all__ = [
    "FILTERS",
    "FUNCTIONS",
    "LOST",
    "MASK",
    "METHODS",
    "TESTS",
    "Compiled",
    "CredentialFailed",
    "CredentialRefused",
    "Fields",
    "LimitExceeded",
    "Limits",
    "NoCredential",
    "Pointer",
    "Read",
    "Scope",
    "Secret",
    "Strict",
    "TemplateError",
    "TemplateSyntaxError",
    "UndefinedValue",
    "compile_text",
    "contains_lost",
    "contains_secret",
    "is_reference",
    "is_template",
    "load",
    "mask",
    "path_text",
    "referenced",
    "references_in",
    "render",
    "replaced",
    "reveal",
    "truthy",
    "unknown_calls",
]
