# Exchanges are played on the stage of tests/task.
CFLAGS_topology := -Itests/task
define topology_stage
$(BUILD)/$(1)/tests/topology/exchange_test $(BUILD)/$(1)/tests/topology/exchange_death_test: \
	$(BUILD)/$(1)/obj/tests/task/stage.o $(BUILD)/$(1)/obj/tests/task/player.o $(BUILD)/$(1)/obj/tests/task/share.o
endef
$(foreach v,$(VARIANTS),$(eval $(call topology_stage,$(v))))
