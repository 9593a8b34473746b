# The tests of stream barriers drive their tasks from the stage of tests/task.
CFLAGS_stream := -Itests/task
define stream_stage
$(patsubst %.c,$(BUILD)/$(1)/%,$(wildcard tests/stream/*_test.c)): \
	$(BUILD)/$(1)/obj/tests/task/stage.o $(BUILD)/$(1)/obj/tests/task/player.o $(BUILD)/$(1)/obj/tests/task/share.o
endef
$(foreach v,$(VARIANTS),$(eval $(call stream_stage,$(v))))
