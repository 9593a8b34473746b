# Spin models. `make model` (in the Makefile) runs every run of every model; this is the form that `make check` runs.

.PHONY: model-short
model-short:
	tests/model/run.sh --short $(ARGS)
