# Histories across hosts are judged by the checker of tests/lin.
CFLAGS_bridge := -Itests/lin
# Certificates are made for the tests, by OpenSSL itself.
LDLIBS_bridge := -lcrypto
define bridge_lin
$(BUILD)/$(1)/tests/bridge/fresh_test: $(BUILD)/$(1)/obj/tests/lin/checker.o $(BUILD)/$(1)/obj/tests/lin/model.o
endef
$(foreach v,$(VARIANTS),$(eval $(call bridge_lin,$(v))))
