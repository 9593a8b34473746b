# `make wheel`: build/wheel/muster-….whl, of the variant's objects. They are linked anew, with stubs of an older glibc
# (packaging/floor.py), so that the wheel runs on every glibc since then; nothing is compiled anew. What no shared
# library or program of the wheel may need but glibc is linked in: protobuf-c; and hwloc, which is opened where the
# machine has none. `CC=aarch64-linux-gnu-gcc make wheel` makes arm64's. Two builds are alike in every byte.

GLIBC_FLOOR ?= 2.28
WHEEL_ARCH = $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
WHEEL_TAG = py3-none-manylinux_$(subst .,_,$(GLIBC_FLOOR))_$(WHEEL_ARCH)
WHEEL := $(BUILD)/wheel/$(V)-$(GLIBC_FLOOR)
WHEEL_OUT := $(BUILD)/wheel
FLOOR := $(WHEEL)/floor
FLOOR_LIBS := libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libc.so.6
tool = $(shell $(CC) -print-prog-name=$(1))
beside_cc = $(shell $(CC) -print-file-name=$(1))
LOADER = $(call beside_cc,$(if $(filter aarch64,$(WHEEL_ARCH)),ld-linux-aarch64.so.1,ld-linux-x86-64.so.2))

# Said before anything is compiled.
WHEEL_ARCHIVES := libhwloc.a libncursesw.a libnghttp2.a libprotobuf-c.a libtinfo.a libuv_a.a libz.a
ifneq ($(filter wheel check-packages,$(MAKECMDGOALS)),)
WHEEL_LACKS := $(strip $(foreach a,$(WHEEL_ARCHIVES),$(if $(filter /%,$(call beside_cc,$(a))),,$(a))))
WHEEL_OF := $(if $(filter aarch64,$(WHEEL_ARCH)),:arm64)
$(if $(WHEEL_LACKS),$(error $(CC) finds no $(WHEEL_LACKS): install libc6-dev$(WHEEL_OF) libhwloc-dev$(WHEEL_OF) libncurses-dev$(WHEEL_OF) \
	libnghttp2-dev$(WHEEL_OF) libprotobuf-c-dev$(WHEEL_OF) libssl-dev$(WHEEL_OF) libuv1-dev$(WHEEL_OF) zlib1g-dev$(WHEEL_OF)$(if \
	$(WHEEL_OF), after 'dpkg --add-architecture arm64 && apt-get update')))
endif

# As the variant links, but with the stubs in place of glibc. The order is that in which older glibcs look symbols up.
FLOOR_LINK = $(CC) $(LDFLAGS_$(call kind_of,$(V))) -Wl,--build-id=none,--as-needed,-Bsymbolic -nodefaultlibs
FLOOR_WITH = $(WHEEL)/floor.o $(FLOOR_LIBS:%=$(FLOOR)/%) -l:libc_nonshared.a $(LOADER) -lgcc

$(FLOOR)/made: packaging/floor.py mk/wheel.mk | $(DEPS)
	@mkdir -p $(@D)$(call say,ld,$@)
	$(Q)$(PYTHON) packaging/floor.py $(FLOOR) $(GLIBC_FLOOR) $(call tool,readelf) $(call beside_cc,libc.so.6) $(call beside_cc,libm.so.6)
	$(Q)for file in $(FLOOR_LIBS); do name=$${file%%.*}; \
		$(CC) -shared -nostdlib -Wl,-soname,$$file,--build-id=none,--version-script=$(FLOOR)/$$name.map \
			-o $(FLOOR)/$$file $(FLOOR)/$$name.s; done
	$(Q)touch $@

# Nothing of these may call what it defines itself: no checked variants, no builtins.
$(WHEEL)/%.o: packaging/%.c mk/wheel.mk
	@mkdir -p $(@D)$(call say,cc,$@)
	$(Q)$(CC) -std=gnu17 -D_GNU_SOURCE $(WARN) -O2 -fPIC -c -o $@ $<

$(WHEEL)/libmuster.so.0: $(LIB_OBJ_$(V)) $(WHEEL)/floor.o $(FLOOR)/made src/libmuster.map
	@:$(call say,ld,$@)
	$(Q)$(FLOOR_LINK) -shared -Wl,-soname,$(SONAME),--version-script=src/libmuster.map,-rpath,'$$ORIGIN',--no-undefined \
		-o $@ $(LIB_OBJ_$(V)) -l:libprotobuf-c.a $(FLOOR_WITH)

$(WHEEL)/muster: $(EXE_OBJ_$(V)) $(BUILD)/$(V)/libmuster.a $(WHEEL)/floor.o $(WHEEL)/floor_start.o $(FLOOR)/made
	@:$(call say,ld,$@)
	$(Q)$(FLOOR_LINK) -Wl,--wrap=__libc_start_main,-rpath,'$$ORIGIN' \
		-o $@ $(EXE_OBJ_$(V)) $(WHEEL)/floor_start.o $(BUILD)/$(V)/libmuster.a $(filter-out -lm,$(EXE_LIBS)) $(FLOOR_WITH)

$(WHEEL)/libhwloc-muster.so.15: $(WHEEL)/hwloc.o $(WHEEL)/floor.o $(FLOOR)/made
	@:$(call say,ld,$@)
	$(Q)$(call tool,objcopy) $(foreach name,stdout stderr,--redefine-sym $(name)=mu_hwloc_$(name)) \
		--redefine-sym program_invocation_name=mu_hwloc_program_name \
		--redefine-sym program_invocation_short_name=mu_hwloc_program_short_name \
		$(call beside_cc,libhwloc.a) $(WHEEL)/libhwloc.a
	$(Q)echo '{ global: hwloc_*; local: *; };' > $(WHEEL)/hwloc.map
	$(Q)$(FLOOR_LINK) -shared -Wl,-soname,$(@F),--version-script=$(WHEEL)/hwloc.map,--no-undefined -o $@ \
		-Wl,--whole-archive $(WHEEL)/libhwloc.a -Wl,--no-whole-archive $(WHEEL)/hwloc.o $(FLOOR_WITH)

WHEEL_LINKED := $(addprefix $(WHEEL)/,libmuster.so.0 muster libhwloc-muster.so.15)
WHEEL_TAKEN := $(addprefix $(BUILD)/$(V)/,muster mu-guard libpmi.so.0 muster_nvshmem_bootstrap.so)
WHEEL_DATA := muster-$(VERSION).data

.PHONY: wheel
wheel: $(WHEEL_LINKED) $(WHEEL_TAKEN)
	@$(if $(call is_quick,$(V)),,echo "wheel: there is no libc.a, so no static command: install libc6-dev" >&2; exit 1)
	@mkdir -p $(WHEEL)/stripped/whole$(call say,py,$(WHEEL_OUT)/muster-$(VERSION)-$(WHEEL_TAG).whl)
	$(Q)for file in $(filter-out $(WHEEL)/muster,$(WHEEL_LINKED)) $(WHEEL_TAKEN); do \
		$(call tool,strip) --strip-unneeded -R .note.gnu.build-id -R .comment -o $(WHEEL)/stripped/$${file##*/} $$file; done
	$(Q)$(call tool,strip) --strip-unneeded -R .comment -o $(WHEEL)/stripped/whole/muster $(WHEEL)/muster
	$(Q)$(PYTHON) packaging/wheel.py $(WHEEL_OUT) $(VERSION) $(WHEEL_TAG) \
		$(foreach f,libmuster.so.0 libhwloc-muster.so.15 muster_nvshmem_bootstrap.so,muster/$(f)=$(WHEEL)/stripped/$(f)) \
		$(WHEEL_DATA)/scripts/muster=$(WHEEL)/stripped/muster \
		$(WHEEL_DATA)/data/lib/muster/muster=$(WHEEL)/stripped/whole/muster \
		$(foreach f,mu-guard libpmi.so.0 libhwloc-muster.so.15,$(WHEEL_DATA)/data/lib/muster/$(f)=$(WHEEL)/stripped/$(f)) \
		$(WHEEL_DATA)/data/share/bash-completion/completions/muster=completions/muster \
		$(foreach m,$(wildcard man/*.[1-8]),$(WHEEL_DATA)/data/share/man/man$(patsubst .%,%,$(suffix $(m)))/$(notdir $(m))=$(m))

# Debian's packages of what `make install` installs: build/deb/*.deb. debhelper works on a folder of its own.
.PHONY: deb
deb: all
	@for tool in dh dpkg-buildpackage; do command -v $$tool > /dev/null || { \
		echo "deb: $$tool is missing: apt-get install debhelper dpkg-dev" >&2; exit 1; }; done
	@rm -rf $(BUILD)/deb; mkdir -p $(BUILD)/deb/muster$(call say,deb,$(BUILD)/deb)
	$(Q)cp -r packaging/debian $(BUILD)/deb/muster/debian
	$(Q)cd $(BUILD)/deb/muster && TOP='$(CURDIR)' MAKEFLAGS= dpkg-buildpackage -b -us -uc > ../log 2>&1 || { tail -n 20 ../log >&2; exit 1; }
	$(Q)ls $(BUILD)/deb/*.deb
