# Spin models: `make model` runs every run of every model (minutes, up to MEMORY_MB each), `make model-short` the quick ones.
# Without spin both say so and succeed; `make check` reports the same as a skipped test through model_test.sh.

.PHONY: model model-short

model:
	tests/model/run.sh || test $$? -eq 77

model-short:
	tests/model/run.sh --short || test $$? -eq 77
