"""Templates: Jinja2 expressions in a sandbox with budgets, over plain data (spec resolutions 7, 8, 14, 15, 22).

Pure: no input or output, no clock besides the processor time a budget counts. What is not at hand is asked of the scope's
`resolve`.

* `render(value, scope)`: evaluate every template in a value. `truthy(when, scope)`: a condition.
* `compile_text(source)`, `referenced(value)`: what validation and the engine need to know beforehand.
* `Scope`, `Pointer`, `is_reference`: what names mean and how results that are elsewhere are read lazily.
* `references_in`, `replaced`: references inside of data, for those who need values.
* `Secret`, `reveal`, `mask`, `contains_secret`: taint.
* Errors: `TemplateError` <- `TemplateSyntaxError`, `UndefinedValue`, `LimitExceeded`, `NoCredential`, `CredentialRefused`.

Decisions. A text that is one `{{ expression }}` (white space around it does not count) keeps the value's type; other text with
templates is text and is never parsed again. In such text values stand as Jinja2 writes them - `None`, `True`, Python's notation
for lists and mappings, nothing for undefined - because existing playbooks were written against it; for JSON inside text there is
`| tojson`. Data comes before methods: `ctx.items` is the key `items` if there is one. `x.headers[...]` ignores the case of the
name. Results are JSON data: tuples, ranges and what filters make are lists, keys are text. Nothing is escaped for HTML.
"""

from noetl_core.expr.compiled import Compiled, Read, compile_text, is_template, referenced
from noetl_core.expr.errors import (
    CredentialRefused,
    LimitExceeded,
    NoCredential,
    TemplateError,
    TemplateSyntaxError,
    UndefinedValue,
)
from noetl_core.expr.filters import FILTERS, TESTS
from noetl_core.expr.functions import FUNCTIONS
from noetl_core.expr.limits import Limits
from noetl_core.expr.references import path_text, references_in, replaced
from noetl_core.expr.rendering import load, render, truthy
from noetl_core.expr.scope import Pointer, Scope
from noetl_core.expr.secret import MASK, Secret, contains_secret, mask, reveal
from noetl_core.expr.strict import Fields, Strict
from noetl_core.result_refs import is_reference

__all__ = [
    "FILTERS",
    "FUNCTIONS",
    "MASK",
    "TESTS",
    "Compiled",
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
]
