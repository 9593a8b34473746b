#!/bin/sh
# The short form of the Spin models: each protocol holds, each with one rule dropped fails. Exit 77 where spin is absent.
exec "$(dirname "$0")/run.sh" --short
