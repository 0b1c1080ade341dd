#!/bin/sh
# Prints the path of a Python that the pinned packages support and that can make virtual environments.
# A shell script, because the Python at hand may be too old to read one that says so. Arguments: names to try first,
# or --only and the one that the user named.
# A shim that only prints an error (pyenv with another version chosen) is passed over: every candidate is run.
set -u

supported='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
complete='import ensurepip, venv'
incomplete=
others=python3.13:python3.12:python3.11
[ "${1-}" = --only ] && shift && others=
IFS=:

for name in "$@" $others; do
    case $name in */*) folders=${name%/*} ;; *) folders=$PATH ;; esac
    for folder in $folders; do
        python=$folder/${name##*/}
        [ -x "$python" ] && "$python" -c "$supported" >/dev/null 2>&1 || continue
        if "$python" -c "$complete" >/dev/null 2>&1; then
            echo "$python"
            exit 0
        fi
        incomplete=$python
    done
done

if [ -n "$incomplete" ]; then
    echo "set-up: $incomplete lacks the venv or ensurepip module; on Debian and Ubuntu: apt install python3-venv" >&2
elif [ -z "$others" ]; then
    echo "set-up: PYTHON=$* does not run as Python 3.11, 3.12 or 3.13. Give the path of a program; a shim of pyenv needs PYENV_VERSION" >&2
else
    echo "set-up: Python 3.11, 3.12 or 3.13 is missing: none of $* python3.13 python3.12 python3.11 on PATH runs as one" >&2
fi
exit 1
