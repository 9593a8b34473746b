# The tests of barriers and groups drive their tasks from the stage of tests/task.
CFLAGS_barrier := -Itests/task
define barrier_stage
$(patsubst %.c,$(BUILD)/$(1)/%,$(wildcard tests/barrier/*_test.c)): \
	$(BUILD)/$(1)/obj/tests/task/stage.o $(BUILD)/$(1)/obj/tests/task/player.o $(BUILD)/$(1)/obj/tests/task/share.o
endef
$(foreach v,$(VARIANTS),$(eval $(call barrier_stage,$(v))))
