# $(call variant_rules,VARIANT,KIND,FOLDER): every rule of one variant. Instantiated once for each, by the Makefile.
# Leaves WHOLE_<v> (library, executable, examples, benches), TESTS_<v>_<dir> and PROGRAMS_<v>_<dir>.

keep = mkdir -p $(dir $(1)); echo '$(2)' | cmp -s - $(1) || echo '$(2)' > $(1)
is_whole = $(filter $(1),$(WHOLE_KINDS))
plain_c = $(filter-out %_test.c %_main.c %_fuzz.c tests/$(1)/fake_%.c,$(wildcard tests/$(1)/*.c))

define variant_rules
CC_$(1) := $(if $(filter fuzz,$(2)),clang,$(if $(filter gcc,$(call compiler_of,$(1))),gcc,$(if $(filter $(call compiler_of,$(1)),$(notdir $(CC))),$(CC),$(call compiler_of,$(1)))))
LIB_OBJ_$(1) := $$(LIB_SRC:%.c=$(3)/obj/%.o) $$(LIB_PROTO:src/%.proto=$(3)/obj/proto/%.pb-c.o)
EXE_OBJ_$(1) := $$(EXE_SRC:%.c=$(3)/obj/%.o) $$(EXE_PROTO:src/%.proto=$(3)/obj/proto/%.pb-c.o)
COMMON_OBJ_$(1) := $$(patsubst %.c,$(3)/obj/%.o,$$(wildcard tests/common/*.c))
ARCHIVES_$(1) := $(if $(EXE_SRC),$(3)/libtool.a) $(3)/libmuster.a
SHARED_$(1) := $(if $(call is_whole,$(2)),$(if $(LIB_SRC),$(3)/libmuster.so.$(VERSION)))
WHOLE_$(1) := $(3)/libmuster.a $$(SHARED_$(1)) $(if $(call is_whole,$(2)),$(if $(EXE_SRC),$(3)/muster) \
	$(EXAMPLES:%=$(3)/examples/%) $(PLUGINS:%=$(3)/%) $(LIBPMI:%=$(3)/%) $(GUARD:%=$(3)/%)) $(if $(filter $(2),$(BENCH_KINDS)),$(BENCHES:%=$(3)/bench/%))
LINK_$(1) = $$(CC_$(1)) $$(LDFLAGS_$(2)) $$(EXTRA_LDFLAGS)

# The command line and the list of sources are kept in files, so that what they change is made again.
$(3)/flags: FORCE
	@$$(call keep,$$@,$$(CC_$(1)) $$(BASE_CFLAGS) $$(CFLAGS_$(2)) $$(EXTRA_CFLAGS) $$(EXTRA_LDFLAGS))
$(3)/sources: FORCE
	@$$(call keep,$$@,$$(LIB_SRC) $$(EXE_SRC) $$(LIB_PROTO) $$(EXE_PROTO))
$(3)/parts: FORCE
	@$$(call keep,$$@,$(if $(call is_quick,$(1)),muster whole/muster $$(QUICK_WRAPS),muster))

$(3)/obj/%.o: %.c $(3)/flags | $$(DEPS) $$(PROTO_H)
	@mkdir -p $$(@D)$$(call say,cc,$$@)
	$$(Q)$$(CC_$(1)) $$(BASE_CFLAGS) $$(INTERNAL) $$(CFLAGS_$(2)) $$(DIR_CFLAGS) $$(EXTRA_CFLAGS) -MMD -MP -c -o $$@ $$<

# What protoc-c writes initializes structs without their inner braces.
$(3)/obj/proto/%.o: $(BUILD)/proto/%.c $(BUILD)/proto/%.h $(3)/flags | $$(DEPS) $$(PROTO_H)
	@mkdir -p $$(@D)$$(call say,cc,$$@)
	$$(Q)$$(CC_$(1)) $$(BASE_CFLAGS) -Wno-missing-braces $$(INTERNAL) $$(CFLAGS_$(2)) $$(EXTRA_CFLAGS) -MMD -MP -c -o $$@ $$<

$(3)/libmuster.a: $$(LIB_OBJ_$(1)) $(3)/sources | $$(DEPS)
	@mkdir -p $$(@D); rm -f $$@$$(call say,ar,$$@)
	$$(Q)$$$$($$(CC_$(1)) -print-prog-name=ar) rcs $$@ $$(filter %.o,$$^)

$(3)/libmuster.so.$(VERSION): $$(LIB_OBJ_$(1)) $(3)/sources src/libmuster.map
	@:$$(call say,ld,$$@)
	$$(Q)$$(LINK_$(1)) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=src/libmuster.map -Wl,--as-needed \
		$(if $(filter asan tsan,$(2)),,-Wl,--no-undefined) -o $$@ $$(filter %.o,$$^) $$(LIB_LIBS)
	@ln -sfn $$(@F) $(3)/$(SONAME); ln -sfn $(SONAME) $(3)/libmuster.so

# The executable's rooms without its main(), so that tests reach them.
$(3)/libtool.a: $$(filter-out %/src/cli/main.o,$$(EXE_OBJ_$(1))) $(3)/sources | $$(DEPS)
	@mkdir -p $$(@D); rm -f $$@$$(call say,ar,$$@)
	$$(Q)$$$$($$(CC_$(1)) -print-prog-name=ar) rcs $$@ $$(filter %.o,$$^)

$(if $(call is_quick,$(1)),$(3)/whole/muster,$(3)/muster): $$(EXE_OBJ_$(1)) $(3)/libmuster.a $(3)/parts
	@mkdir -p $$(@D)$(if $(call is_quick,$(1)),,; rm -rf $(3)/whole)$$(call say,ld,$$@)
	$$(Q)$$(LINK_$(1)) -o $$@ $$(filter %.o,$$^) $(3)/libmuster.a $$(EXE_LIBS)
ifneq ($(call is_quick,$(1)),)
$(3)/muster: $$(EXE_OBJ_$(1)) $$(QUICK_SRC:%.c=$(3)/obj/%.o) $(3)/libmuster.a $(3)/parts | $(3)/whole/muster
	@:$$(call say,ld,$$@)
	$$(Q)$$(LINK_$(1)) -static-pie $$(QUICK_WRAPS:%=-Wl,--wrap=%) -o $$@ $$(filter %.o,$$^) $(3)/libmuster.a $$(EXE_LIBS)
endif

# Examples see what an installed muster gives: public headers and the shared library.
$(3)/examples/%: examples/%.c $(3)/libmuster.so.$(VERSION) $(3)/flags | $$(DEPS)
	@mkdir -p $$(@D)$$(call say,cc,$$@)
	$$(Q)$$(CC_$(1)) -std=gnu17 $$(WARN) -Iinclude $$(CFLAGS_$(2)) $$(LDFLAGS_$(2)) $$(EXTRA_CFLAGS) $$(EXTRA_LDFLAGS) \
		-MMD -MP -MF $$@.d -o $$@ $$< -L$(3) -lmuster -Wl,-rpath,'$$$$ORIGIN/..'

# Plugins, too, but found beside it. A program that loads one may close it while libmuster has threads: it stays.
$(PLUGINS:%=$(3)/%): $(3)/%.so: plugins/%.c $(3)/libmuster.so.$(VERSION) $(3)/flags | $$(DEPS)
	@mkdir -p $$(@D)$$(call say,cc,$$@)
	$$(Q)$$(CC_$(1)) -std=gnu17 $$(WARN) -fvisibility=hidden -Iinclude $$(CFLAGS_$(2)) $$(LDFLAGS_$(2)) $$(EXTRA_CFLAGS) \
		$$(EXTRA_LDFLAGS) -MMD -MP -MF $$@.d -shared -Wl,-z,nodelete -o $$@ $$< -L$(3) -lmuster -Wl,-rpath,'$$$$ORIGIN'

# What MPI programs load to find the launcher's PMI-1: of no sanitizer, for they are built without.
$(3)/libpmi.so.0: plugins/libpmi.c $(3)/flags | $$(DEPS)
	@mkdir -p $$(@D)$$(call say,cc,$$@)
	$$(Q)$$(CC_$(1)) -std=gnu17 -D_GNU_SOURCE $$(WARN) -fvisibility=hidden -O2 -g -fPIC $$(EXTRA_CFLAGS) $$(EXTRA_LDFLAGS) \
		-MMD -MP -MF $$@.d -shared -Wl,-soname,libpmi.so.0 -Wl,--no-undefined -o $$@ $$<

# What sleeps until a launcher is killed: no libc, one segment, as small as a program can be. What EXTRA_CFLAGS says of
# code that has libc does not hold for it, and no umask makes it a file that others may write (launch/guard/guard.c).
$(3)/mu-guard: plugins/guard.c $(3)/flags | $$(DEPS)
	@mkdir -p $$(@D)$$(call say,cc,$$@)
	$$(Q)$$(CC_$(1)) $$(filter-out --coverage,$$(EXTRA_CFLAGS)) -std=gnu17 -D_GNU_SOURCE $$(WARN) -Isrc -O2 -ffreestanding \
		-fno-pie -fno-stack-protector -fno-asynchronous-unwind-tables -fno-sanitize=all -fno-lto -U_FORTIFY_SOURCE \
		-MMD -MP -MF $$@.d -nostdlib -static -Wl,--build-id=none,-z,noseparate-code,-z,norelro,-z,noexecstack -o $$@ $$<
	@chmod 755 $$@

$(BENCHES:%=$(3)/bench/%): $(3)/bench/%: $(3)/obj/bench/%.o $$(patsubst %.c,$(3)/obj/%.o,$$(wildcard bench/common/*.c)) $$(ARCHIVES_$(1))
	@mkdir -p $$(@D)$$(call say,ld,$$@)
	$$(Q)$$(LINK_$(1)) -o $$@ $$(filter %.o,$$^) $$(filter %.a,$$^) $$(LDLIBS_bench) $$(EXE_LIBS) -lm

$(foreach d,$(TEST_DIRS),$(call test_dir_rules,$(1),$(2),$(3),$(d)))
-include $$(wildcard $$(LIB_OBJ_$(1):.o=.d) $$(EXE_OBJ_$(1):.o=.d) $$(QUICK_SRC:%.c=$(3)/obj/%.d) $(3)/obj/tests/*/*.d $(3)/obj/bench/*.d $(3)/obj/bench/*/*.d $(3)/examples/*.d $(3)/*.so.d $(3)/*.so.0.d $(3)/mu-guard.d)
endef

# $(call test_dir_rules,VARIANT,KIND,FOLDER,DIR)
define test_dir_rules
TESTS_$(1)_$(4) := $(patsubst %.c,$(3)/%,$(wildcard tests/$(4)/*_test.c))
PROGRAMS_$(1)_$(4) := $(patsubst %_main.c,$(3)/%,$(wildcard tests/$(4)/*_main.c)) \
	$(patsubst tests/$(4)/fake_%.c,$(3)/tests/$(4)/libfake_%.so,$(wildcard tests/$(4)/fake_*.c)) \
	$(if $(filter fuzz,$(2)),$(patsubst %.c,$(3)/%,$(wildcard tests/$(4)/*_fuzz.c)))
$(3)/obj/tests/$(4)/%.o: DIR_CFLAGS := -Itests/common -Itests/$(4) $(if $(filter fuzz,$(4)),,$(CFLAGS_$(4)))

$(patsubst %.c,$(3)/%,$(wildcard tests/$(4)/*_test.c)): $(3)/%: $(3)/obj/%.o
$(patsubst %_main.c,$(3)/%,$(wildcard tests/$(4)/*_main.c)): $(3)/%: $(3)/obj/%_main.o
$(patsubst %.c,$(3)/%,$(wildcard tests/$(4)/*_test.c)) $(patsubst %_main.c,$(3)/%,$(wildcard tests/$(4)/*_main.c)): \
	$(patsubst %.c,$(3)/obj/%.o,$(call plain_c,$(4))) $$(COMMON_OBJ_$(1)) $$(ARCHIVES_$(1))
	@mkdir -p $$(@D)$$(call say,ld,$$@)
	$$(Q)$$(LINK_$(1)) -o $$@ $$(filter %.o,$$^) $$(filter %.a,$$^) $$(LDLIBS_$(4)) $$(EXE_LIBS) -Wl,--as-needed -lcmocka -lm
$(3)/tests/$(4)/libfake_%.so: $(3)/obj/tests/$(4)/fake_%.o
	@mkdir -p $$(@D)$$(call say,ld,$$@)
	$$(Q)$$(LINK_$(1)) -shared -o $$@ $$<
$(patsubst %.c,$(3)/%,$(if $(filter fuzz,$(2)),$(wildcard tests/$(4)/*_fuzz.c))): $(3)/%: $(3)/obj/%.o \
	$(patsubst %.c,$(3)/obj/%.o,$(call plain_c,$(4))) $$(COMMON_OBJ_$(1)) $$(ARCHIVES_$(1))
	@mkdir -p $$(@D)$$(call say,ld,$$@)
	$$(Q)$$(LINK_$(1)) -fsanitize=fuzzer -o $$@ $$(filter %.o,$$^) $$(filter %.a,$$^) $$(LDLIBS_$(4)) $$(EXE_LIBS) -Wl,--as-needed -lcmocka -lm

endef
