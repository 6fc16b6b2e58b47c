#!/usr/bin/env bash
# Prints the report of a pull request in Markdown: findings, tests, and the differences and forecast cost of each changed playbook.
# Environment: PLAYBOOKS, BASE, EXECUTIONS, VALIDATED, TESTED (exit codes).
set -euo pipefail

word() { [ "$1" = 0 ] && echo passed || echo failed; }

echo "### NoETL playbooks"
echo
echo "validate: $(word "$VALIDATED"), test: $(word "$TESTED")"
if [ "$VALIDATED" != 0 ]; then
  printf '\n```text\n%s\n```\n' "$(noetl validate --strict "$PLAYBOOKS" || true)"
fi
if [ "$TESTED" != 0 ]; then
  printf '\n```text\n%s\n```\n' "$(noetl test "$PLAYBOOKS" 2>&1 || true)"
fi
if [ -z "${BASE:-}" ]; then exit 0; fi

git cat-file -e "$BASE^{commit}" 2> /dev/null || git fetch --quiet --depth=1 origin "$BASE"
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
git archive "$BASE" | tar -x -C "$before"
past=(--last 0)
if [ -n "${EXECUTIONS:-}" ]; then past=(--on "$EXECUTIONS"); fi
git -c core.quotePath=false diff --name-only --relative --diff-filter=d "$BASE" -- "$PLAYBOOKS" | while read -r file; do
  case "$file" in *.test.yaml | *.test.yml) continue ;; *.yaml | *.yml) ;; *) continue ;; esac
  grep -qE "^kind: *[\"']?Playbook" "$file" || continue
  old=()
  if [ -f "$before/$file" ]; then old=(--base "$before/$file"); else echo; echo "New: \`$file\`"; fi
  printf '\n<details open><summary><code>%s</code></summary>\n\n```text\n%s\n```\n\n</details>\n' \
    "$file" "$(noetl plan "$file" ${old[@]+"${old[@]}"} "${past[@]}" 2>&1 || true)"
done
