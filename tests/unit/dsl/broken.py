"""A hundred playbooks with one mistake each. `§` stands where the diagnostic must point; it is not part of the text."""

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: demo, path: team/demo}\n"
MIGRATE = "rewrite it with `noetl migrate`"
KEPT = "write set_ctx in that task, or put it into the last task's result; a field of the result is steps.a.result.results"


def flow(*steps: str) -> str:
    """A playbook of these steps, each a mapping in flow style or lines of a block mapping."""
    out = HEAD + "workflow:\n"
    for step in steps:
        first, *rest = step.strip("\n").split("\n")
        out += f"  - {first}\n" + "".join(f"    {line}\n" for line in rest)
    return out


def tasks(*lines: str) -> str:
    """A playbook of one step `a` whose tool is a list, given by its lines."""
    return flow("step: a\ntool:\n" + "\n".join(f"  {line}" for line in lines))


def rule(text: str, extra: str = "") -> str:
    """A playbook with one task policy: one rule, then `else`."""
    return tasks(
        "- name: one",
        "  kind: noop",
        "  spec:",
        "    policy:",
        "      rules:",
        f"        - {text}",
        "        - else: {then: {do: continue}}",
        *([extra] if extra else []),
    )


def executor(text: str) -> str:
    return HEAD + f"executor: {text}\nworkflow: [{{step: a, tool: {{kind: noop}}}}]\n"


BROKEN: list[tuple[str, str, str, str]] = [
    # --- reading YAML
    ("unbalanced flow", HEAD + "workflow: [{step: a, tool: {kind: noop}§]\n", "E100", "check the indentation and the quotes above this line"),
    ("colon in text", HEAD + "workload: {}\ndesc: a§: b\n", "E100", "check the indentation, or quote text that contains a colon"),
    ("empty document", "§# nothing\n", "E100", ""),
    ("unknown alias", HEAD + "workload: {a: §*b}\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E100", "define it first"),
    ("alias of itself", HEAD + "workload: &w {a: §*w}\nworkflow: []\n", "E101", "write it out"),
    ("deep nesting", HEAD + "workload: " + "[" * 63 + "§[" + "]" * 64 + "\n", "E101", "flatten it"),
    ("NUL", HEAD + "workload: {a: 'x§\0'}\n", "E102", "remove it"),
    ("byte order mark", "§\ufeff" + HEAD, "E102", "save it as UTF-8 without BOM"),
    ("tab", HEAD + "workload:\n§\ta: 1\n", "E102", "indent with spaces"),
    ("duplicate key", flow("step: a\ntool: {kind: noop}\n§tool: {kind: noop}"), "E103", "remove one"),
    ("duplicate root key", flow("{step: a, tool: {kind: noop}}") + "§kind: Playbook\n", "E103", "remove one"),
    ("tag", HEAD + "workload: {a: §!!python/name:os.system x}\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E104",
     "playbooks hold plain values; quote text instead"),
    ("not a number", HEAD + "workload: {a: §.nan}\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E104", "quote it"),
    ("infinite exponent", HEAD + "workload: {a: §1e999}\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E104", "quote it"),
    ("second document", flow("{step: a, tool: {kind: noop}}") + "§---\na: 1\n", "E104", "one file holds one playbook"),
    ("template without quotes", HEAD + "workload: {a: {§{ b }}}\n", "E104", 'quote templates: key: "{{ ... }}"'),
    ("merge of text", HEAD + "workload: {<<: §text}\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E104", "use an alias of a mapping"),
    # --- the root
    ("a list", "§- step: a\n", "E112", ""),
    ("no apiVersion", "§kind: Playbook\nmetadata: {name: d, path: d}\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E111",
     "apiVersion: noetl.io/v2"),
    ("apiVersion of v1", flow("{step: a, tool: {kind: noop}}").replace("noetl.io/v2", "§noetl.io/v1"), "E125", MIGRATE),
    ("apiVersion misspelt", flow("{step: a, tool: {kind: noop}}").replace("noetl.io/v2", "§notl.io/v2"), "E125",
     'did you mean "noetl.io/v2"?'),
    ("kind", flow("{step: a, tool: {kind: noop}}").replace("kind: Playbook", "kind: §Workflow"), "E125", "kind: Playbook"),
    ("no workflow", "§" + HEAD, "E111", ""),
    ("workflow misspelt", HEAD + "§workflw: [{step: a, tool: {kind: noop}}]\n", "E110", 'did you mean "workflow"?'),
    ("root vars", HEAD + "§vars: {a: 1}\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E121",
     "use workload for inputs, ctx and iter for what changes; or rewrite it with `noetl migrate`"),
    ("empty workflow", HEAD + "workflow: §[]\n", "E112", "add a step"),
    ("workflow is a mapping", HEAD + "workflow: §{a: {tool: {kind: noop}}}\n", "E112", ""),
    ("no metadata path", flow("{step: a, tool: {kind: noop}}").replace("metadata: {name: demo, path: team/demo}", "§metadata: {name: d}"),
     "E111", ""),
    ("path walks up", flow("{step: a, tool: {kind: noop}}").replace("team/demo", "§../demo"), "E115",
     "names separated by /, like team/flow"),
    ("name is a number", flow("{step: a, tool: {kind: noop}}").replace("name: demo", "name: §12"), "E112", 'quote it: "12"'),
    ("workload is text", HEAD + "workload: §none at all\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E112", ""),
    # --- executor
    ("executor key", executor("{§spce: {}}"), "E110", 'did you mean "spec"?'),
    ("entry step", executor("{spec: {entry_step: §b}}"), "E203", ""),
    ("entry step misspelt", HEAD + "executor: {spec: {entry_step: §fetsh}}\nworkflow: [{step: fetch, tool: {kind: noop}}]\n", "E203",
     'did you mean "fetch"?'),
    ("limit", executor("{spec: {policy: {limits: {§max_payload: 100}}}}"), "E110", 'did you mean "max_payload_bytes"?'),
    ("error of fail", rule('{when: "{{ true }}", then: {do: fail, error: {§mesage: no rows}}}'), "E110", 'did you mean "message"?'),
    ("limit too high", executor("{spec: {policy: {limits: {max_payload_bytes: §999999999}}}}"), "E124", ""),
    ("limit in quotes", executor('{spec: {policy: {limits: {max_tokens: §"5"}}}}'), "E112", "write 5 without quotes"),
    ("failure mode", executor("{spec: {policy: {failure: {mode: §fail_first}}}}"), "E113", 'did you mean "fail_fast"?'),
    ("on_unmatched", executor("{spec: {policy: {defaults: {on_unmatched: §stop}}}}"), "E113", "one of continue, fail"),
    ("rules in executor policy", executor("{spec: {policy: {§rules: []}}}"), "E126",
     "write them in spec.policy of a task, or as default in spec.policy.task"),
    ("executor jump", executor("{spec: {policy: {task: {rules: [{else: {then: {do: jump, to: §x}}}]}}}}"), "E202", "write it on the task"),
    ("flag in words", executor("{spec: {extensions: §maybe}}"), "E112", "true or false"),
    # --- keychain, workbook
    ("keychain without kind", HEAD + "keychain: [§{name: k}]\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E111", ""),
    ("keychain twice", HEAD + "keychain: [{name: k, kind: s}, {name: §k, kind: s}]\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E103",
     "remove one"),
    ("keychain is a mapping", HEAD + "keychain: §{k: {kind: s}}\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E112", ""),
    ("workbook without kind", HEAD + "workbook: {w: §{code: x}}\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E111",
     "kind says which tool runs"),
    ("workbook entry missing", HEAD + "workbook: {warm: {kind: noop}}\nworkflow: [{step: a, tool: {kind: workbook, task: §wram}}]\n", "E204",
     'did you mean "warm"?'),
    ("no workbook", flow("{step: a, tool: {kind: workbook, task: §w}}"), "E204", "the playbook has no workbook"),
    ("workbook in workbook", HEAD + "workbook: {w: {kind: §workbook, task: w}}\nworkflow: [{step: a, tool: {kind: noop}}]\n", "E114",
     "write the tool itself"),
    ("workbook override", HEAD + "workbook: {w: {kind: noop}}\nworkflow: [{step: a, tool: {kind: workbook, task: w, §mesage: x}}]\n", "E110",
     'did you mean "message"?'),
    # --- steps
    ("description", flow("step: a\ndesc: §5\ntool: {kind: noop}"), "E112", 'quote it: "5"'),
    ("step without name", flow("§tool: {kind: noop}"), "E111", "step: <name>"),
    ("step called name", flow("§name: a\ntool: {kind: noop}"), "E111", "a step's name is written step: <name>"),
    ("step name", flow("{step: §a b, tool: {kind: noop}}"), "E115", "letters, digits, _, - and . (at most 128)"),
    ("step twice", flow("{step: a, tool: {kind: noop}}", "{step: §a, tool: {kind: noop}}"), "E122", "rename one"),
    ("step key", flow("step: a\n§tol: {kind: noop}"), "E110", 'did you mean "tool"?'),
    ("neither tool nor next", flow("§step: a\ndesc: nothing"), "E116", "give it one of them"),
    ("step.when", flow('step: a\n§when: "{{ ctx.x }}"\ntool: {kind: noop}'), "E120", MIGRATE),
    ("step.case", flow("step: a\ntool: {kind: noop}\n§case: []"), "E120", MIGRATE),
    ("step.vars", flow("step: a\ntool: {kind: noop}\n§vars: {a: 1}"), "E120", MIGRATE),
    ("next is a list", flow("step: a\nnext: §[{step: b}]", "{step: b, tool: {kind: noop}}"), "E120", MIGRATE),
    ("next is a name", flow("step: a\nnext: §b", "{step: b, tool: {kind: noop}}"), "E120", MIGRATE),
    ("next_mode", flow("step: a\nspec: {§next_mode: inclusive}\ntool: {kind: noop}"), "E120", MIGRATE),
    ("step spec key", flow("step: a\nspec: {§jion: all}\ntool: {kind: noop}"), "E110", 'did you mean "join"?'),
    ("join", flow("step: a\nspec: {join: §every}\ntool: {kind: noop}"), "E113", "one of all, any"),
    ("join count", flow("step: a\nspec: {join: {count: §0}}\ntool: {kind: noop}"), "E124", ""),
    ("rules in step policy", flow("step: a\nspec: {policy: {§rules: []}}\ntool: {kind: noop}"), "E126",
     "write them in spec.policy of a task, or as default in spec.policy.task"),
    ("lifecycle", flow("step: a\nspec: {policy: {lifecycle: {§timeout: 5}}}\ntool: {kind: noop}"), "E110", 'did you mean "timeout_s"?'),
    ("negative timeout", flow("step: a\nspec: {policy: {lifecycle: {timeout_s: §-5}}}\ntool: {kind: noop}"), "E124", ""),
    ("admit without rules", flow("step: a\nspec: {policy: {admit: §{mode: exclusive}}}\ntool: {kind: noop}"), "E111",
     "admit: { rules: [...] }"),
    ("admit allows nothing", flow("step: a\nspec: {policy: {admit: {rules: [{else: {then: §{}}}]}}}\ntool: {kind: noop}"), "E111",
     "then: { allow: true }"),
    ("on_deny", flow("step: a\nspec: {policy: {admit: {on_deny: §wait, rules: [{else: {then: {allow: true}}}]}}}\ntool: {kind: noop}"),
     "E113", "one of park, skip, fail"),
    ("set iter on a step", flow("step: a\ntool: {kind: noop}\n§set: {iter.a: 1}"), "E114", "write it in a task"),
    # --- arcs
    ("arc to nowhere", flow("step: a\nnext: {arcs: [{step: §valdate}]}", "{step: validate, tool: {kind: noop}}"), "E201",
     'did you mean "validate"?'),
    ("arc without step", flow('step: a\nnext: {arcs: [§{when: "{{ true }}"}]}'), "E111", "step: <name>"),
    ("no arcs", flow("step: a\nnext: §{spec: {mode: exclusive}}"), "E111", "next: { arcs: [...] }"),
    ("router mode", flow("step: a\nnext: {spec: {mode: §inclusiv}, arcs: [{step: a}]}"), "E113", 'did you mean "inclusive"?'),
    ("arc key", flow("step: a\nnext: {arcs: [{step: a, §wehn: x}]}"), "E110", 'did you mean "when"?'),
    ("guard without braces", flow("step: a\nnext: {arcs: [{step: a, when: §ctx.ok}]}"), "E303", 'write "{{ ctx.ok }}"'),
    ("guard is a number", flow("step: a\nnext: {arcs: [{step: a, when: §1}]}"), "E112", 'write "{{ ... }}"'),
    ("secret in a guard", HEAD + 'keychain: [{name: k, kind: s}]\nworkflow:\n  - step: a\n    next: {arcs: [{step: a, when: §"{{ keychain.k }}"}]}\n',
     "E205", "read the credential in a task"),
    ("arc args", flow("step: a\nnext: {arcs: [{step: a, args: §[1]}]}"), "E112", ""),
    # --- loops
    ("loop without iterator", flow("step: a\nloop: §{in: [1]}\ntool: {kind: noop}"), "E117", "a loop needs in and iterator"),
    ("loop without in", flow("step: a\nloop: §{iterator: x}\ntool: {kind: noop}"), "E117", "a loop needs in and iterator"),
    ("loop mode", flow("step: a\nloop: {in: [1], iterator: x, spec: {mode: §paralel}}\ntool: {kind: noop}"), "E113",
     'did you mean "parallel"?'),
    ("loop in is text", flow("step: a\nloop: {in: §items, iterator: x}\ntool: {kind: noop}"), "E112", 'write "{{ ... }}"'),
    ("loop window", flow("step: a\nloop: {in: [1], iterator: x, spec: {max_in_flight: §0}}\ntool: {kind: noop}"), "E124", ""),
    ("loop reducer", flow("step: a\nloop: {in: [1], iterator: x, spec: {policy: {reducers: {n: §add}}}}\ntool: {kind: noop}"), "E113",
     "one of last, append, extend, sum, min, max, merge, count"),
    ("loop without tool", flow("step: a\n§loop: {in: [1], iterator: x}\nnext: {arcs: [{step: a}]}"), "E114", "a loop repeats the step's tool"),
    # --- tasks
    ("tool kind", tasks("- {name: one, kind: §htpp, url: x}"), "E118", 'did you mean "http"?'),
    ("no kind", tasks("- §{name: one, url: x}"), "E111", "kind says which tool runs"),
    ("no url", tasks("- §{name: one, kind: http}"), "E111", "add url"),
    ("code", tasks("- {name: one, kind: python, code: 'x = §= 1'}"), "E304", ""),
    ("code in a block", tasks("- name: one", "  kind: python", "  code: |", "    # a comment", "", "    if x:", "    §y = 1"), "E304", ""),
    ("code that ends too early", tasks("- name: one", "  kind: python", "  code: |", "    x = §[1,", "  spec: {timeout: 5}"), "E304", ""),
    ("code without a colon", tasks("- name: one", "  kind: python", "  code: |", "    def main(a)§", "      return a"), "E304", ""),
    ("code that is folded", tasks("- name: one", "  kind: python", "  code: >", "    x =", "    1", "", "    y = §)"), "E304", ""),
    ("yield with a return", tasks("- name: one", "  kind: python", "  code: |", "    §yield 1", "    return 2"), "E304", ""),
    ("code of the workbook", HEAD + "workbook: {one: {kind: python, code: 'x §x'}}\nworkflow: [{step: a, tool: {kind: workbook, name: one}}]\n",
     "E304", ""),
    ("entry", tasks("- {name: one, kind: python, entry: §scroe, code: 'def score(): pass'}"), "E305", 'did you mean "score"?'),
    ("input key", tasks("- {name: one, kind: http, url: x, §hedaers: {}}"), "E110", 'did you mean "headers"?'),
    ("method", tasks("- {name: one, kind: http, url: x, method: §GTE}"), "E113", 'did you mean "GET"?'),
    ("compensation by two names", flow("step: a\ntool: {kind: noop}\n§compensate: {kind: noop}\nspec: {policy: {compensation: {kind: noop}}}"),
     "E114", "keep compensate"),
    ("compensation without a tool", flow("step: a\ntool: {kind: noop}\ncompensate: §{loop: {in: [1], iterator: x}}"), "E114", "tool: [...]"),
    ("compensation in many workers", flow("step: a\ntool: {kind: noop}\ncompensate:\n  loop: §{in: [1], iterator: x, spec: {mode: parallel, "
     "policy: {exec: distributed}}}\n  tool: {kind: noop}"), "E114", "leave exec out"),
    ("kind in a compensation", flow("step: a\ntool: {kind: noop}\ncompensate: [{name: undo, kind: §htpp}]"), "E118", 'did you mean "http"?'),
    ("jump out of a compensation", flow("step: a\ntool: [{name: one, kind: noop}]\ncompensate: [{name: undo, kind: noop, spec: {policy: {rules: "
     "[{else: {then: {do: jump, to: §one}}}]}}}]"), "E202", "its tasks: undo"),
    ("two bodies", tasks("- {name: one, kind: http, url: x, json: {}, §body: x}"), "E114", "keep one"),
    ("task twice", tasks("- {name: one, kind: noop}", "- §{name: one, kind: noop}"), "E123", "rename one"),
    ("task named ctx", tasks("- {name: §ctx, kind: noop}"), "E115", "choose another name"),
    ("eval", tasks("- {name: one, kind: noop, §eval: []}"), "E120", MIGRATE),
    ("policy outside spec", tasks("- {name: one, kind: noop, §policy: {rules: []}}"), "E120", MIGRATE),
    ("policy is a list", tasks("- {name: one, kind: noop, spec: {policy: §[]}}"), "E119", "policy: { rules: [...] }"),
    ("policy without rules", tasks("- {name: one, kind: noop, spec: {policy: §{mode: exclusive}}}"), "E119", "policy: { rules: [...] }"),
    ("spec key", tasks("- {name: one, kind: http, url: x, spec: {§tiemout: 5}}"), "E110", 'did you mean "timeout"?'),
    ("library without import", tasks('- {name: one, kind: python, code: x, libs: {m: §{from: math}}}'), "E111", "write both: {from: module, import: name}"),
    ("library of a shape of its own", tasks('- {name: one, kind: python, code: x, libs: {m: {from: math, import: pi, §as: p}}}'), "E110", "known: from, import"),
    ("library that is a number", tasks('- {name: one, kind: python, code: x, libs: {m: §5}}'), "E112", 'quote it: "5"'),
    ("library that no code can name", tasks('- {name: one, kind: python, code: x, libs: {§a-b: math}}'), "E115", "a name that the code can write, with the module as its value"),
    ("result of a task in an arc", flow("{step: a, tool: [{name: one, kind: noop}, {name: two, kind: noop}], next: {arcs: [{step: b, when: '{{ §a.results.one.n > 1 }}'}]}}", "{step: b, tool: {kind: noop}}"), "E207", KEPT),
    ("result of a task by its whole path", flow("{step: a, tool: {kind: noop}, next: {arcs: [{step: b, when: '{{ 1 < §steps.a.results.a_task }}'}]}}", "{step: b, tool: {kind: noop}}"), "E207", KEPT),
    ("results of a step in a task", flow("{step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}", "{step: b, tool: {kind: noop, result: '{{ §steps.a.results | default(1) }}'}}"), "E207", KEPT),
    ("credential", tasks('- {name: one, kind: http, url: x, headers: {a: §"{{ keychain.k }}"}}'), "E206", "keychain: [{name: k, kind: ...}]"),
    # --- rules
    ("directive", rule("{when: '{{ true }}', then: {do: §contine}}"), "E113", 'did you mean "continue"?'),
    ("expr", rule("{§expr: '{{ true }}', then: {do: fail}}"), "E120", MIGRATE),
    ("jump to nowhere", rule("{when: '{{ true }}', then: {do: jump, to: §noe}}"), "E202", 'did you mean "one"?'),
    ("jump without to", rule("{when: '{{ true }}', then: §{do: jump}}"), "E111", "name the task: to: <task>"),
    ("to without jump", rule("{when: '{{ true }}', then: {do: fail, §to: one}}"), "E114", "write do: jump"),
    ("a timeout of nothing", flow("step: a\ntool: {kind: noop, spec: {timeout: §0}}"), "E124", ""),
    ("a wait that goes back", flow("step: a\ntool: {kind: wait, duration: §-1}"), "E124", ""),
    ("a wait that is no time", flow("step: a\ntool: {kind: wait, duration: §soon}"), "E124", ""),
    ("a heartbeat too fast", flow("step: a\ntool: {kind: callback, heartbeat: §0.1}"), "E124", ""),
    ("attempts", rule("{when: '{{ true }}', then: {do: retry, attempts: §0}}"), "E124", ""),
    ("backoff", rule("{when: '{{ true }}', then: {do: retry, backoff: §exponental}}"), "E113", 'did you mean "exponential"?'),
    ("set", rule("{when: '{{ true }}', then: {set: {§foo.a: 1}}}"), "E113", "begin the key with ctx. or iter."),
    ("set_vars", rule("{when: '{{ true }}', then: {§set_vars: {a: 1}}}"), "E120", MIGRATE),
    ("two else", rule("{§else: {then: {do: fail}}}").replace("§", "").replace("- else: {then: {do: continue}}", "- {§else: {then: {do: continue}}}"),
     "E119", "keep one"),
    ("rule without then", rule("§{when: '{{ true }}'}"), "E111", "say what it does: then: { ... }"),
    ("when beside else", rule("{§when: '{{ true }}', else: {then: {do: fail}}}"), "E114", "make them two rules"),
    # --- templates
    ("syntax", rule("{when: '{{ outcome.status §= 1 }}', then: {do: fail}}"), "E301", ""),
    ("filter", rule("{when: '{{ outcome.result | §lenght }}', then: {do: fail}}"), "E301", "did you mean 'length'?"),
    ("in a block", tasks("- name: one", "  kind: noop", "  result: |", "    first line", "    {{ a | §nosuch }}"), "E301", ""),
    ("folded", tasks("- name: one", "  kind: noop", "  result: >-", "    first line", "    and {{ a | §nosuch }}"), "E301", ""),
    # --- sugar
    ("choose without then", tasks("- choose:", "    - §when: '{{ true }}'"), "E111", "write when and then"),
    ("while without do", tasks("- §while: '{{ true }}'"), "E111", "do: [tasks]"),
    ("until key", tasks("- until: '{{ true }}'", "  do: [{kind: noop}]", "  §doo: 1"), "E110", 'did you mean "do"?'),
]  # fmt: skip
