"""Whatever of a library is overridden, replaced or called though it is not its public interface, in one table.

A row says where this is done and why the public interface does not serve, and has a digest of the library's source. If a test here
fails, the library has changed there: compare its source with ours, correct ours where it must follow, and write the new digest
into the row. `pyproject.toml` bounds each library from above (`test_each_library_is_bounded_from_above`).
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Override:
    """`parts` of `module` are classes, functions and methods, as the library names them."""

    library: str
    module: str
    parts: tuple[str, ...]
    where: str
    why: str
    digest: str

    def source(self) -> str:
        """Return the text of the parts, without importing the library."""
        spec = importlib.util.find_spec(self.module)
        assert spec is not None and spec.origin is not None, f"{self.library} has no module {self.module} any more"
        text = Path(spec.origin).read_text("utf-8")
        return "\n".join(_part(ast.parse(text), text, part, self) for part in self.parts)


def _part(tree: ast.AST, text: str, part: str, row: Override) -> str:
    node = tree
    for name in part.split("."):
        found = [n for n in ast.iter_child_nodes(node) if name in _defined(n)]
        assert found, f"{row.library} has no {row.module}.{part} any more, which {row.where} overrides or calls: {row.why}"
        node = found[-1]
    return "\n".join(line.strip() for line in (ast.get_source_segment(text, node) or "").splitlines())


def _defined(node: ast.AST) -> list[str]:
    """Return the names that a class, a function or an assignment defines."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return [name for target in targets for name in (getattr(target, "name", None), getattr(target, "id", None)) if name]


OVERRIDES = [
    Override(
        "jinja2", "jinja2.compiler", ("CodeGenerator",), "noetl_core/expr/environment.py",
        "generated code must count every operation; Jinja2 documents `code_generator_class`, and not what a generator calls",
        "7606141f5ef46189",
    ),
    Override(
        "jinja2", "jinja2.lexer", ("Lexer.tokeniter", "Lexer.wrap", "Lexer.tokenize", "Lexer._normalize_newlines", "TokenStream"),
        "noetl_core/expr/lexer.py", "errors and reads have columns, which Jinja2's tokens lack, and validation reads thousands of texts",
        "2398501b136fff34",
    ),
    Override(
        "jinja2", "jinja2.environment", ("Environment._parse", "Environment._tokenize", "Environment._generate", "Environment.lexer"),
        "noetl_core/expr/environment.py", "Jinja2 walks every template twice more, for an optimizer and extensions that are not used",
        "22a5548825c428a8",
    ),
    Override(
        "jinja2", "jinja2.runtime", ("Undefined",), "noetl_core/expr/evaluation_limits.py",
        "an undefined name has attributes, is false and compares; its errors name the part that is missing",
        "827792a28f06eef0",
    ),
    Override(
        "aiohttp", "aiohttp.connector", ("BaseConnector.connect", "Connection.protocol", "Connection.close"),
        "noetl_core/tools/http/client.py", "a connection on which unasked data has arrived is used for no request; no hook sees it",
        "739da013d0ef7c8c",
    ),
    Override(
        "aiohttp", "aiohttp.client_proto", ("ResponseHandler.should_close",), "noetl_core/tools/http/client.py",
        "it says whether unasked data has arrived",
        "f0193af2dff3e360",
    ),
    Override(
        "aiohttp", "aiohttp.payload", ("Payload",), "noetl_core/tools/http/client.py",
        "aiohttp has no limit for the time in which a body is written",
        "3ab81bfd876d7a04",
    ),
    Override(
        "urllib3", "urllib3.connection", ("HTTPConnection._new_conn",), "noetl_core/tools/aws/allowed_addresses.py",
        "a name is resolved once, for the check of its addresses and for the socket; urllib3 has no resolver to replace",
        "a01a79f30aa4bb29",
    ),
    Override(
        "botocore", "botocore.httpsession", ("URLLib3Session.__init__", "URLLib3Session.send"),
        "noetl_core/tools/aws/allowed_addresses.py", "its pools are given their own connections (`_manager`), which no argument does",
        "e7ee589aa492c809",
    ),
    Override(
        "ministack", "ministack.services.lambda_svc", ("_poll_dynamodb_streams", "_poll_loop", "_run_sqs_batch"),
        "noetl_infra/pollers.py", "it polls queues and streams in one thread, and stops a queue for a second after a failed batch",
        "e5ad2ec87dd9a371",
    ),
    Override(
        "ministack", "ministack.core.lambda_runtime",
        ("Worker._spawn", "Worker.invoke", "Worker._read_stderr", "Worker._drain_stderr_bounded", "kill_workers"),
        "noetl_infra/pollers.py and environments.py", "it waits for logs, and keeps a process whose start was killed",
        "05881e397ee42373",
    ),
    Override(
        "ministack", "ministack.services.lambda_svc", ("_ESM_IDLE_WAKE_GAP_SECONDS", "_ESM_BACKOFF_SECONDS", "_esm_wake"),
        "noetl_infra/pollers.py", "it has no setting for the interval of its polls, and no hook for a new record of a stream",
        "54cb7623d7e400d0",
    ),
    Override(
        "ministack", "ministack.services.dynamodb",
        ("_tokenize", "_condition_syntax_error", "_check_redundant_parens", "_check_reserved_keyword_usage", "_evaluate_condition"),
        "noetl_infra/expressions.py", "it parses a condition again for every item that it looks at",
        "d5f65941a434875e",
    ),
    Override(
        "uvicorn", "uvicorn.protocols.http.httptools_impl", ("HttpToolsProtocol.connection_made",), "noetl_infra/server.py",
        "head and body of a response are one write; uvicorn makes two",
        "1497c2a079be82ff",
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", OVERRIDES, ids=lambda row: f"{row.module}: {', '.join(row.parts)}"[:60])
def test_the_source_that_an_override_depends_on_is_unchanged(row: Override) -> None:
    digest = hashlib.sha256(row.source().encode()).hexdigest()[:16]
    version = importlib.metadata.version(row.library)
    assert digest == row.digest, (
        f"{row.library} {version} changed {row.module}: {', '.join(row.parts)}. {row.where} depends on them ({row.why}). Compare the"
        f" sources, correct ours, then write the digest {digest} into this row"
    )


def test_each_library_is_bounded_from_above() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [*project["dependencies"], *project["optional-dependencies"]["stack"]]
    bounds = {r.name: str(r.specifier) for r in map(Requirement, stated)}
    unbounded = {row.library for row in OVERRIDES if "<" not in bounds[row.library]}
    assert not unbounded, "a later version may change what is overridden"


def test_an_override_of_a_removed_attribute_is_named_in_the_error() -> None:
    row = Override("jinja2", "jinja2.lexer", ("Lexer.gone",), "here", "a reason", "")
    with pytest.raises(AssertionError, match=r"jinja2 has no jinja2\.lexer\.Lexer\.gone any more, which here overrides"):
        row.source()
