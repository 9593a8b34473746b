# The recorder of real sessions is the muster command with these calls of its own noted on the way: record_main.c.
RECORDED := mu_core_init mu_core_up mu_core_down mu_core_lost mu_core_frame mu_core_turn mu_control_send mu_remote_read mu_frame_read \
	mu_lanes_ask mu_lanes_again mu_lanes_drop mu_lanes_take
define fuzz_record
$(BUILD)/$(1)/tests/fuzz/record: private EXTRA_LDFLAGS += $(RECORDED:%=-Wl,--wrap=%)
endef
$(foreach v,$(VARIANTS),$(eval $(call fuzz_record,$(v))))
