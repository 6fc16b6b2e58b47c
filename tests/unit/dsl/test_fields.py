"""The table of fields: what it says of each field is true, and the JSON Schema says it of every property."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from noetl_core.dsl.fields import flow, keychain, playbook, policies, shared_limits, sources, tools, triggers, value_schema
from noetl_core.dsl.fields.types import Block
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.model import UNSET, Executor, Limits, Then
from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.schema import playbook_schema
from noetl_core.values.json_schema import KEYWORDS

SCHEMA = playbook_schema()
PAGES = Path(__file__).parents[3] / "docs/language"
BLOCKS = [
    b
    for module in (playbook, value_schema, keychain, flow, policies, shared_limits, sources, tools, triggers)
    for b in vars(module).values()
    if isinstance(b, Block)
]
BLOCKS += policies.SUGAR.values()
BLOCKS += [block for spec in KINDS.values() for block in spec.blocks.values()]
FIELDS = {
    **{(b.name, f.name): (b.link, f) for b in BLOCKS for f in b},
    **{(kind, f.name): (spec.page, f) for kind, spec in KINDS.items() for f in (*spec.fields, *spec.options)},
}


def properties(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every property of a schema, those of conditions left out."""
    if isinstance(schema, list):
        for n, part in enumerate(schema):
            yield from properties(part, (*path, str(n)))
    elif isinstance(schema, Mapping):
        for key, part in schema.items():
            if key == "properties":
                for name, described in part.items():
                    if "const" not in described or len(described) > 1:  # `end` may have neither tool nor next
                        yield (*path, name), described
                        yield from properties(described, (*path, name))
            elif key not in ("if", "default", "enum", "const"):
                yield from properties(part, (*path, key))


PROPERTIES = dict(properties(SCHEMA))


def test_every_schema_property_has_a_description_that_links_to_its_page() -> None:
    silent = [
        path
        for path, part in PROPERTIES.items()
        if not re.search(r"\.\n((language|tools)/|(triggers|limits|failures|backfill|catalog)\.md)", part.get("description", ""))
    ]
    assert silent == []
    assert len(PROPERTIES) > 550


OMISSION_PHRASES = ("Default: ", "Accepted without effect", "The same as ", "Replaces this input")


def test_every_optional_property_states_what_applies_when_it_is_omitted() -> None:
    """A property that states nothing is required, alone or as one of several."""
    silent = {
        path[-1]
        for path, part in PROPERTIES.items()
        if "default" not in part and not any(s in part["description"] for s in OMISSION_PHRASES)
    }
    required = {f.name for _, f in FIELDS.values() if f.required} | {f.name for f in policies.RULE}
    assert silent == required | {name for spec in KINDS.values() for group in spec.required for name in group if name in silent}


def test_links_in_descriptions_begin_with_the_base_url_of_the_pages() -> None:
    elsewhere = dict(properties(playbook_schema("https://example.com/docs/")))
    assert elsewhere.keys() == PROPERTIES.keys()
    for path, part in PROPERTIES.items():
        assert elsewhere[path]["description"] == part["description"].replace("\n", "\nhttps://example.com/docs/")


def test_a_field_with_a_default_has_it_in_the_schema() -> None:
    shown = {path[-1] for path, part in PROPERTIES.items() if "default" in part}
    assert shown == {f.name for _, f in FIELDS.values() if f.default is not UNSET}


@cache
def anchors(page: str) -> frozenset[str]:
    text = re.sub(r"^```.*?^```", "", (PAGES / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    return frozenset(
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    )


def test_each_link_leads_to_a_section() -> None:
    links = {name: (field.link or page).partition("#") for name, (page, field) in FIELDS.items()}
    missing = {page for page, _, _ in links.values() if not (PAGES / page).exists()}
    assert missing == set(), "write these pages, which kinds and fields (dsl/fields) name"
    assert {name: link for name, link in links.items() if link[2] and link[2] not in anchors(link[0])} == {}


def test_each_field_is_described_in_whole_sentences() -> None:
    wrong = [
        name
        for name, (_, field) in FIELDS.items()
        if not field.doc.endswith(".")
        or not (field.doc[0].isupper() or field.doc.startswith(("true ", "false ")))
        or "  " in field.doc
        or field.otherwise.endswith(".")
    ]
    assert wrong == []
    assert len(FIELDS) > 700


def test_each_default_is_a_value_that_the_field_may_have() -> None:
    wrong = {}
    for path, part in PROPERTIES.items():
        if "default" in part and not Draft202012Validator({**part, "$defs": SCHEMA["$defs"]}).is_valid(part["default"]):
            wrong[path] = part["default"]
    assert wrong == {}


def test_omitted_fields_parse_to_the_defaults_of_the_table() -> None:
    read = parse_playbook(
        """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: a, path: a }
executor: { spec: { policy: { limits: {}, lifecycle: {}, failure: {}, results: {} } } }
workflow:
  - step: a
    loop: { in: [1], iterator: n }
    spec: { policy: { failure: {}, admit: { rules: [{ else: { then: { allow: true } } }] } } }
    tool: { kind: noop, spec: { policy: { rules: [{ else: { then: {} } }] } } }
    next: { spec: { policy: {} }, arcs: [] }
"""
    )
    (step,) = read.steps
    assert read.executor == Executor()
    assert step.loop is not None and step.router is not None and step.admission is not None and step.tasks[0].policy is not None
    then = step.tasks[0].policy.rules[0].then
    assert then == Then()
    assert {f.name: getattr(then, f.name) for f in policies.THEN if f.default is not UNSET} == defaults(policies.THEN)
    assert (step.tasks[0].policy.on_unmatched, policies.TASK_POLICY["on_unmatched"].default) == (None, UNSET)
    assert step.admission.on_deny == policies.ADMISSION["on_deny"].default
    assert step.failure_mode == flow.STEP_FAILURE["mode"].default
    assert {name: getattr(step.loop, name) for name in ("mode", "max_in_flight", "frame")} == defaults(flow.LOOP_SPEC)
    assert {name: getattr(step.router, name) for name in ("priority", "dedupe")} == defaults(flow.ROUTER_POLICY)
    assert step.router.mode == flow.ROUTER_SPEC["mode"].default
    assert {name: getattr(read.executor.limits, name) for name in Limits.__match_args__} == defaults(playbook.LIMITS_BLOCK)


def defaults(block: Block) -> dict[str, Any]:
    return {f.name: f.default for f in block if f.default is not UNSET}


def test_the_schema_of_inputs_has_the_keywords_that_are_understood() -> None:
    assert value_schema.VALUE_SCHEMA.keys == KEYWORDS


def test_every_limit_has_a_row() -> None:
    assert playbook.LIMITS_BLOCK.keys == set(Limits.__match_args__)
