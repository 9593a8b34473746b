#Beside guests there are tasks of the C library : on the stage of tests / task.
CFLAGS_desk := -Itests/task
define desk_stage
$(patsubst %.c,$(BUILD)/$(1)/%,$(wildcard tests/desk/*_test.c)): \
	$(BUILD)/$(1)/obj/tests/task/stage.o $(BUILD)/$(1)/obj/tests/task/player.o $(BUILD)/$(1)/obj/tests/task/share.o
endef
$(foreach v,$(VARIANTS),$(eval $(call desk_stage,$(v))))
