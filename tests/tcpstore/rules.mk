# The server is at a real engine, beside tasks of the C library: what tests/coord has for that.
CFLAGS_tcpstore := -Itests/coord -Itests/task -Itests/bridge
define tcpstore_coord
$(patsubst %.c,$(BUILD)/$(1)/%,$(wildcard tests/tcpstore/*_test.c)): \
	$(BUILD)/$(1)/obj/tests/coord/counter.o $(BUILD)/$(1)/obj/tests/coord/pair.o \
	$(BUILD)/$(1)/obj/tests/task/stage.o $(BUILD)/$(1)/obj/tests/task/player.o $(BUILD)/$(1)/obj/tests/task/share.o \
	$(BUILD)/$(1)/obj/tests/bridge/cast.o $(BUILD)/$(1)/obj/tests/bridge/hosts.o $(BUILD)/$(1)/obj/tests/bridge/agents.o
endef
$(foreach v,$(VARIANTS),$(eval $(call tcpstore_coord,$(v))))
