# Certificates are made for the tests as those of the bridge are: by OpenSSL itself.
LDLIBS_rpc := -lcrypto
CFLAGS_rpc := -Itests/bridge
define rpc_certificates
$(BUILD)/$(1)/tests/rpc/certificates: $(BUILD)/$(1)/obj/tests/bridge/certificates.o
endef
$(foreach v,$(VARIANTS),$(eval $(call rpc_certificates,$(v))))
