#!/bin/sh
# find-python.sh VERSION UV: print the first interpreter of that version which runs. A shim of pyenv may have the name and fail.
version=$1 uv=$2 examined=

runs() {
  test -x "$1" || return 1
  examined="$examined
  $1"
  test "$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version"
}

candidates() {
  echo "$PATH" | tr ':' '\n' | while read -r folder; do
    for name in "python$version" python3 python; do echo "$folder/$name"; done
  done
  ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python 2>/dev/null
  "$uv" python find --quiet --no-project --managed-python "$version" 2>/dev/null
}

for candidate in $(candidates); do
  runs "$candidate" && echo "$candidate" && exit 0
done
echo "Python $version, the functions' own, compiles the layer, and none of these is one that runs:$examined
put it on the PATH, or 'uv python install $version'" >&2
exit 1
