# Beside guests there are tasks of the C library: on the stage of tests/task; of several hosts: of the cast of tests/bridge.
CFLAGS_coord := -Itests/task -Itests/bridge
define coord_stage
$(patsubst %.c,$(BUILD)/$(1)/%,$(wildcard tests/coord/*_test.c)): \
	$(BUILD)/$(1)/obj/tests/task/stage.o $(BUILD)/$(1)/obj/tests/task/player.o $(BUILD)/$(1)/obj/tests/task/share.o \
	$(BUILD)/$(1)/obj/tests/bridge/cast.o $(BUILD)/$(1)/obj/tests/bridge/hosts.o $(BUILD)/$(1)/obj/tests/bridge/agents.o
endef
$(foreach v,$(VARIANTS),$(eval $(call coord_stage,$(v))))
