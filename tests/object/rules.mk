# The tests of objects drive their tasks from the stage of tests/task.
CFLAGS_object := -Itests/task
define object_stage
$(patsubst %.c,$(BUILD)/$(1)/%,$(wildcard tests/object/*_test.c)): \
	$(BUILD)/$(1)/obj/tests/task/stage.o $(BUILD)/$(1)/obj/tests/task/player.o $(BUILD)/$(1)/obj/tests/task/share.o
endef
$(foreach v,$(VARIANTS),$(eval $(call object_stage,$(v))))
