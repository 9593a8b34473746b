# Several hosts in one process, and tasks of the C library there, are tests/bridge's.
CFLAGS_coords := -Itests/bridge
define coords_hosts
$(patsubst %.c,$(BUILD)/$(1)/%,$(wildcard tests/coords/*_test.c)): $(patsubst %,$(BUILD)/$(1)/obj/tests/bridge/%.o,hosts agents cast)
endef
$(foreach v,$(VARIANTS),$(eval $(call coords_hosts,$(v))))
