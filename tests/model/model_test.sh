#!/bin/sh
# The short form of the Spin models: each protocol holds, each with one rule dropped fails. Exit 77 where spin is absent.
# About 50 s of processor time, at -O0: compiling the checkers costs more than most runs.
# timeout: 1200
exec "$(dirname "$0")/run.sh" --short
