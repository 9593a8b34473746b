# Several hosts in one process, and tasks of the C library there, are tests/bridge's.
CFLAGS_desks := -Itests/bridge
define desks_hosts
$(patsubst %.c,$(BUILD)/$(1)/%,$(wildcard tests/desks/*_test.c)): $(patsubst %,$(BUILD)/$(1)/obj/tests/bridge/%.o,hosts agents cast)
endef
$(foreach v,$(VARIANTS),$(eval $(call desks_hosts,$(v))))
