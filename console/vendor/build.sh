#!/usr/bin/env bash
# Make ../noetl_console/static/vendor of the packages that package-lock.json names (with hashes). Needs npm; running the console does not.
# The result is in the repository. `build.sh --check` says whether it still is what the lock makes.
set -euo pipefail
cd "$(dirname "$0")"
kept=../noetl_console/static/vendor
out=$kept
if [ "${1:-}" = --check ]; then out=$(mktemp -d); trap 'rm -rf "$out"' EXIT; fi

npm ci --ignore-scripts --no-audit --no-fund --silent
mkdir -p "$out"
for name in preact codemirror; do
  node_modules/.bin/esbuild "entries/$name.js" --bundle --format=esm --target=es2022 --minify --legal-comments=none \
    --charset=utf8 --log-level=warning --outfile="$out/$name.js"
done
{
  for package in $(node -p 'Object.keys(require("./package-lock.json").packages).filter(p => p && !require("./package-lock.json").packages[p].dev).sort().join("\n")'); do
    echo "== ${package#node_modules/} $(node -p "require('./$package/package.json').version")"
    cat "$package"/LICENSE* 2>/dev/null || node -p "'License: ' + require('./$package/package.json').license"
    echo
  done
} > "$out/LICENSES.txt"
(cd "$out" && sha256sum LICENSES.txt codemirror.js preact.js) > "$out/SHA256SUMS"
# axe, which finds barriers in pages, is only for the tests.
axe=../../tests/console/vendor
if [ "$out" != "$kept" ]; then axe=$out.axe; trap 'rm -rf "$out" "$out.axe"' EXIT; fi
mkdir -p "$axe"
cp node_modules/axe-core/axe.min.js node_modules/axe-core/LICENSE "$axe/"
(cd "$axe" && sha256sum LICENSE axe.min.js) > "$axe/SHA256SUMS"
if [ "$out" != "$kept" ]; then diff -r ../../tests/console/vendor "$axe"; fi
if [ "$out" != "$kept" ]; then diff -r "$kept" "$out"; fi
