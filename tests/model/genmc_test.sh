#!/bin/sh
# The short form of the GenMC harnesses: the production source under weak memory. Exit 77 where genmc is absent.
# timeout: 1800
exec "$(dirname "$0")/genmc/run.sh" --short
