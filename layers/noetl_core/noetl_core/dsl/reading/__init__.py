"""From YAML text to typed values: `load` reads nodes with positions, within budgets (`scalars` are its plain values); `reader`
reads nodes by the tables of `dsl.fields`; `sql_code` tells code from text in SQL; `diagnostics` are the findings; `positions`
finds the parts of a playbook in its text. No field of the language is known here."""
