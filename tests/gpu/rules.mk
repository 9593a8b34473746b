# Its test runs programs of other directories, too.
VARIANTS_gpu ?= release
define gpu_programs
$(BUILD)/$(1)/tests/gpu/check: | $(BUILD)/$(1)/tests/stream/gpu_test $(BUILD)/$(1)/tests/accel/nccl_gpu_test
endef
$(foreach v,release,$(eval $(call gpu_programs,$(v))))
