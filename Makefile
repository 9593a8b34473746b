# muster's one Makefile. `make help` lists what can be typed; this comment says how it is laid out.
#
# Variants. Everything is built under build/<variant>/, side by side, each with its own flags:
#   release  -O2                    what is installed, measured and, unless told otherwise, tested
#   debug    -O0 -g3                for a debugger
#   asan     -O1, address and undefined-behaviour sanitizers
#   tsan     -O1 -DMU_TSAN, thread sanitizer
#   step     -O2 -no-pie            single-stepped by tests/crash;  step3 is the same at -O3
#   sim      -O1 -DMU_SIM           the same source under the seeded scheduler of tests/sim
#   fuzz     -O1, libFuzzer + asan  always clang
# `CC=clang make` builds the same into build/<variant>-clang. `make VARIANT=debug` chooses what `make` builds.
# `make BUILD=/tmp/x` builds elsewhere. EXTRA_CFLAGS and EXTRA_LDFLAGS are added to every command;
# VERBOSE=1 shows the commands.
#
# Sources are found by wildcard, also in a room's folders, one level down; nobody lists a file here.
#   shm_layout/*.c src/<library room>/*.c   -> libmuster.a, libmuster.so.<version>
#   src/<executable room>/*.c               -> muster (its main() is in src/cli/main.c), twice: whole/muster, and muster,
#                         which has no loader and hands on what it cannot do (src/cli/quick.c)
#   src/<room>/X.proto -> proto/<room>/X.pb-c.{c,h} by protoc-c, once for all variants, compiled with its room and
#                         included as "<room>/X.pb-c.h". Packages are named mu.…, so that symbols begin with mu_.
#                         Those of src/rpc that are served are described to clients: scripts/descriptors.sh
#   examples/X.c      -> <variant>/examples/X, against the public headers and libmuster.so alone, and run as a test;
#                        a comment line "run: COMMAND" says how, with $MUSTER and $EXAMPLE set (default: just run it)
#   plugins/X.c       -> <variant>/X.so, which another library loads: the same way, with libmuster.so beside it; installed
#   bench/X.c         -> <variant>/bench/X, with bench/common/*.c
#   plugins/libpmi.c  -> <variant>/libpmi.so.0, which MPI programs load: libc alone, without libmuster
#   mk/wheel.mk       -> wheel/muster-….whl, deb/*.deb: the same once more, for pip and for apt; packaging/ is how
#   plugins/guard.c   -> <variant>/mu-guard, which sleeps until a launcher is killed: without libc
#   tests/D/X_test.c  -> <variant>/tests/D/X_test, with D's other plain .c files, tests/common/*.c, both archives, cmocka
#   tests/D/X_main.c  -> <variant>/tests/D/X, the same way: a program that tests of D run
#   tests/D/X_fuzz.c  -> fuzz/tests/D/X_fuzz, a libFuzzer target
#   tests/D/fake_X.c  -> <variant>/tests/D/libfake_X.so: a vendor's library as tests need it, a fake that only they load
#   tests/D/X_test.sh, X_test.py            run as they are
# A test runs in the variants that a comment line "variants: a b" near its top names. Otherwise: those of its
# directory (VARIANTS_<dir> below), else `release asan`, and `tsan` too for *_threads_test.c. Examples: `release asan`.
# tests/D/rules.mk, where it exists, is read first; it may set VARIANTS_D, CFLAGS_D and LDLIBS_D. How tests
# are run (timeouts, environment, what counts as a leak) is said in tests/runtests.py.
# tests/{torture,sim,fuzz,model}/run.sh and bench/run.sh are the long forms, behind the targets of the same
# name, called with `--seconds N` (torture, sim, fuzz) and $(ARGS); their short forms are ordinary tests.

MAKEFLAGS += -rR -j$(shell nproc 2>/dev/null || echo 2)
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:

BUILD ?= build
VARIANT ?= release
PREFIX ?= /usr/local
DESTDIR ?=
SECONDS = 60
unexport SECONDS
ifneq ($(filter default undefined,$(origin CC)),)
CC := gcc
endif
ifneq ($(filter default undefined,$(origin CXX)),)
CXX := g++
endif
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)

version_part = $(shell sed -n 's/^.define MUSTER_VERSION_$(1) //p' include/muster/muster.h)
VERSION := $(call version_part,MAJOR).$(call version_part,MINOR).$(call version_part,PATCH)
SONAME := libmuster.so.$(call version_part,MAJOR)

# ---- sources -------------------------------------------------------------------------------------------------------

LIB_ROOMS := base sync segment task kv barrier event topology accel object schedule ps queue checkpoint
EXE_ROOMS := kernel session bridge coord rpc ray compat mindspore launch agent cli
LIB_SRC := $(sort $(wildcard shm_layout/*.c $(LIB_ROOMS:%=src/%/*.c) $(LIB_ROOMS:%=src/%/*/*.c)))
QUICK_SRC := src/cli/quick.c
QUICK_WRAPS := dlopen getaddrinfo freeaddrinfo getpwuid getpwuid_r
EXE_SRC := $(filter-out $(QUICK_SRC),$(sort $(wildcard $(EXE_ROOMS:%=src/%/*.c) $(EXE_ROOMS:%=src/%/*/*.c))))
LIB_PROTO := $(sort $(wildcard $(LIB_ROOMS:%=src/%/*.proto)))
EXE_PROTO := $(sort $(wildcard $(EXE_ROOMS:%=src/%/*.proto)))
PROTO_C := $(patsubst src/%.proto,$(BUILD)/proto/%.pb-c.c,$(LIB_PROTO) $(EXE_PROTO))
PROTO_H := $(PROTO_C:.c=.h) $(BUILD)/proto/rpc/descriptors.inc
EXAMPLES := $(sort $(basename $(notdir $(wildcard examples/*.c))))
PLUGINS := $(sort $(patsubst plugins/%.c,%.so,$(filter-out plugins/libpmi.c plugins/guard.c,$(wildcard plugins/*.c))))
LIBPMI := $(if $(wildcard plugins/libpmi.c),libpmi.so.0)
# For machines that it is written for: a launcher without it forks its guard.
GUARD := $(if $(filter x86_64-% aarch64-%,$(shell $(CC) -dumpmachine)),mu-guard)
BENCHES := $(sort $(basename $(notdir $(wildcard bench/*.c))))
TEST_DIRS := $(filter-out common,$(sort $(patsubst tests/%/,%,$(wildcard tests/*/))))
TEST_C := $(sort $(wildcard $(TEST_DIRS:%=tests/%/*_test.c)))
TEST_SCRIPT := $(sort $(wildcard $(TEST_DIRS:%=tests/%/*_test.sh) $(TEST_DIRS:%=tests/%/*_test.py)))
FORMATTED = $(sort $(shell find shm_layout include src tests bench examples plugins packaging -name '*.[ch]' 2>/dev/null))

# What the library needs besides libc: the shared one names it, the archive's users link it (muster.pc: Libs.private).
LIB_LIBS := $(if $(LIB_PROTO),-lprotobuf-c)

# What the executable's rooms link with, and so do tests and benches. Static: as a shared library libuv costs each start
# of the command 0.11 ms instead of 0.04 ms, and so a job of one host needs nothing but libc. curses, of which only
# 'muster top' calls anything, costs a start nothing that can be measured. OpenSSL, which costs 0.5 ms as archives and
# 0.9 ms as shared libraries, is opened when hosts are to be connected: bridge/link/openssl.h. Nor do nghttp2 and zlib, which
# serve gRPC, cost a start anything that can be measured: as archives they bring 260 relocations to 2,100. libm,
# which kernels of graphs call, is of libc; the command that has no loader does not have it.
EXE_LIBS := -l:libprotobuf-c.a -l:libuv_a.a -l:libnghttp2.a -l:libz.a -l:libncursesw.a -l:libtinfo.a -lm

# Where the command is linked without a loader, and the whole one lies beside it (src/cli/quick.c): where libc is there
# as an archive, which a sanitizer cannot use. `make QUICK_KINDS=`: the whole one alone.
QUICK_KINDS := $(if $(filter /%,$(shell $(CC) -print-file-name=libc.a)),release debug)
is_quick = $(filter $(QUICK_KINDS),$(call kind_of,$(1)))

# ---- variants ------------------------------------------------------------------------------------------------------

KINDS := release debug asan tsan step step3 sim
SUFFIX := $(if $(filter gcc cc,$(notdir $(CC))),,-$(notdir $(CC)))
SUFFIXES := none $(sort -clang $(SUFFIX))
kind_of = $(firstword $(subst -, ,$(1)))
compiler_of = $(or $(patsubst -%,%,$(patsubst $(call kind_of,$(1))%,%,$(1))),gcc)
VARIANTS := fuzz $(foreach s,$(SUFFIXES),$(addsuffix $(s:none=),$(KINDS)))
V := $(VARIANT)$(if $(findstring -,$(VARIANT)),,$(SUFFIX))

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
BASE_CFLAGS := -std=gnu17 -D_GNU_SOURCE $(WARN) -fno-common -fvisibility=hidden -Iinclude
INTERNAL := -Isrc -I. -I$(BUILD)/proto

CFLAGS_release := -O2 -g -fPIC
CFLAGS_debug := -O0 -g3 -fPIC
CFLAGS_asan := -O1 -g -fPIC -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
CFLAGS_tsan := -O1 -g -fPIC -fno-omit-frame-pointer -fsanitize=thread -DMU_TSAN
CFLAGS_step := -O2 -g -fno-pie
CFLAGS_step3 := -O3 -g -fno-pie
CFLAGS_sim := -O1 -g -fPIC -DMU_SIM
CFLAGS_fuzz := -O1 -g -fPIC -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all
LDFLAGS_release := -Wl,-z,relro,-z,now
LDFLAGS_asan := -fsanitize=address,undefined
LDFLAGS_tsan := -fsanitize=thread
LDFLAGS_step := -no-pie
LDFLAGS_step3 := -no-pie
LDFLAGS_fuzz := -fsanitize=address,undefined

# Where more than the archives is built: the shared library, the executable, the examples; and the benches.
WHOLE_KINDS := release debug asan tsan
BENCH_KINDS := release debug

# Where the tests of a directory run, when neither the test nor the directory's rules.mk says.
VARIANTS_crash ?= step
VARIANTS_sim ?= sim
VARIANTS_fuzz ?= fuzz
VARIANTS_torture ?= release
VARIANTS_model ?= release
VARIANTS_bench ?= release
VARIANTS_tidy ?= release

-include $(wildcard tests/*/rules.mk bench/rules.mk)

# Words "path=variant": what the tests say of themselves, then what the rules above give to the others.
SAID := $(if $(TEST_C)$(TEST_SCRIPT),$(shell awk 'FNR <= 40 && match($$0, /^[ \#*\/]*variants: */) { \
	s = substr($$0, RSTART + RLENGTH); gsub(/\*\//, "", s); n = split(s, w, /[ ,]+/); \
	for (i = 1; i <= n; i++) if (w[i] != "") print FILENAME "=" w[i] }' $(TEST_C) $(TEST_SCRIPT)))
SILENT := $(filter-out $(foreach w,$(SAID),$(firstword $(subst =, ,$(w)))),$(TEST_C) $(TEST_SCRIPT))
dir_of = $(word 2,$(subst /, ,$(1)))
by_default = $(or $(VARIANTS_$(call dir_of,$(1))),release asan $(if $(filter %_threads_test.c,$(1)),tsan))
PLAN := $(SAID) $(foreach t,$(SILENT),$(foreach v,$(call by_default,$(t)),$(t)=$(v))) $(foreach v,release asan,$(EXAMPLES:%=examples/%.c=$(v)))
PLANNED := $(sort $(foreach w,$(PLAN),$(lastword $(subst =, ,$(w)))))
$(foreach v,$(PLANNED),$(if $(filter $(v),$(VARIANTS)),,$(error a test asks for the variant "$(v)", which is none of: $(VARIANTS))))

# ---- the rules of one variant --------------------------------------------------------------------------------------

# Goals that a newcomer types first check the Debian packages, before anything is compiled.
NEEDS := $(if $(filter demo check check-release check-asan check-tsan model fuzz,$(MAKECMDGOALS)),build) \
	$(if $(filter check check-release check-asan check-tsan model fuzz,$(MAKECMDGOALS)),check)
DEPS := $(if $(strip $(NEEDS)),.deps)

Q := $(if $(VERBOSE),,@)
say = $(if $(VERBOSE)$(findstring s,$(firstword -$(MAKEFLAGS))),,; echo '  $(1)  $(2)')

# Grouped: one run makes both. A file that another imports is found again through the .d.
$(BUILD)/proto/%.pb-c.c $(BUILD)/proto/%.pb-c.h: src/%.proto | $(DEPS)
	@mkdir -p $(@D)$(call say,pb,$<)
	$(Q)protoc-c -Isrc --c_out=$(BUILD)/proto --dependency_out=$(BUILD)/proto/$*.pb-c.d $<
-include $(wildcard $(PROTO_C:.c=.d))

# What the services tell of their messages: gRPC's reflection.
$(BUILD)/proto/rpc/descriptors.inc: scripts/descriptors.sh $(wildcard src/rpc/*.proto) | $(DEPS)
	@mkdir -p $(@D)$(call say,pb,$@)
	$(Q)scripts/descriptors.sh $(BUILD)/proto/described $(wildcard src/rpc/*.proto) > $@

include mk/variant.mk
$(foreach v,$(VARIANTS),$(eval $(call variant_rules,$(v),$(call kind_of,$(v)),$(BUILD)/$(v))))
# Loops over arrays of numbers, made with vectors; a square root that cannot fail is one instruction, and libm not needed.
$(foreach v,$(VARIANTS),$(eval $(BUILD)/$(v)/obj/src/ps/step.o: private DIR_CFLAGS := -O3 -fno-math-errno))

# What `make check` needs of a variant: for whole kinds all of it, and the planned tests with their helpers.
planned_dirs = $(sort $(foreach w,$(filter %=$(1),$(filter tests/%,$(PLAN))),$(call dir_of,$(w))))
planned_progs = $(patsubst %.c=$(1),$(BUILD)/$(1)/%,$(filter %.c=$(1),$(filter tests/%,$(PLAN)))) \
	$(foreach d,$(call planned_dirs,$(1)),$(PROGRAMS_$(1)_$(d)))
needed_by = $(WHOLE_$(1)) $(call planned_progs,$(1))

# ---- what people type ----------------------------------------------------------------------------------------------

.SECONDEXPANSION:
.PHONY: all debug asan tsan demo check check-release check-asan check-tsan check-fresh check-packages torture sim fuzz model interop \
	gpu-check gpu-bundle bench install uninstall format format-check clean help plan .deps FORCE

all: $(WHOLE_$(V)) $(BUILD)/muster.pc
debug asan tsan: $$(WHOLE_$$@$(SUFFIX))

.deps:
	@scripts/deps.sh $(or $(strip $(NEEDS)),build)

demo: $(WHOLE_$(V))
	@scripts/run-example.sh $(BUILD)/$(V) demo

RUN_TESTS = BUILD='$(BUILD)' CC='$(CC)' CXX='$(CXX)' $(PYTHON) tests/runtests.py $(if $(K),-k '$(K)') $(TESTFLAGS)
check: $(foreach v,$(sort release release-clang $(PLANNED)),$(call needed_by,$(v))) $(BUILD)/muster.pc
	@$(RUN_TESTS) $(PLAN)

check-release check-asan check-tsan: check-%: $$(call needed_by,$$*)
	@$(RUN_TESTS) $(filter %=$*,$(PLAN))

plan:
	@printf '%s\n' $(PLAN)

# Long forms: the directory's own run.sh, after its programs.
RUN_SH = @test -x $(1)/run.sh || { echo "$@: there is no $(1)/run.sh"; exit 1; }; \
	MUSTER='$(abspath $(BUILD)/$(V))/muster' BUILD='$(abspath $(BUILD)/$(V))' CC='$(CC)' PYTHON=$(PYTHON) \
	$(1)/run.sh $(2) $(ARGS)
all_programs = $(WHOLE_$(1)) $(PROGRAMS_$(1)_$(2)) $(TESTS_$(1)_$(2))

torture: $(call all_programs,$(V),torture) $(PROGRAMS_$(V)_lin)
	$(call RUN_SH,tests/torture,--seconds $(SECONDS))
sim: $(call all_programs,sim,sim)
	$(call RUN_SH,tests/sim,--seconds $(SECONDS))
fuzz: $(call all_programs,fuzz,fuzz)
	$(call RUN_SH,tests/fuzz,--seconds $(SECONDS))
model: $(call all_programs,$(V),model)
	$(call RUN_SH,tests/model)
check-fresh:
	@tests/fresh/run.sh $(ARGS) $(if $(K),'$(K)')
check-packages: wheel deb
	@tests/packages/run.sh $(WHEEL_OUT)/muster-$(VERSION)-$(WHEEL_TAG).whl $(BUILD)/deb $(ARGS)
interop: $(WHOLE_$(V)) $(PROGRAMS_$(V)_checks)
	$(call RUN_SH,tests/interop)
GPU_PROGRAMS = $(WHOLE_$(V)) $(PROGRAMS_$(V)_gpu) $(BUILD)/$(V)/tests/stream/gpu_test $(BUILD)/$(V)/tests/accel/nccl_gpu_test
gpu-check: $(GPU_PROGRAMS)
	$(call RUN_SH,tests/gpu)
gpu-bundle: $(GPU_PROGRAMS)
	@tests/gpu/bundle.sh $(BUILD)/$(V) $(BUILD)/gpu-bundle
bench: $(WHOLE_$(V)) $(BUILD)/$(V)/tests/bridgesim/scale
	@scripts/deps.sh --say bench
	$(call RUN_SH,bench)

$(BUILD)/muster.pc: muster.pc.in include/muster/muster.h Makefile | $(DEPS)
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' $< > $@

include mk/wheel.mk

INSTALLED_MAN = $(foreach m,$(wildcard man/*.[1-8]),share/man/man$(patsubst .%,%,$(suffix $(m)))/$(notdir $(m)))
# Where it is installed, for the shell: there may be a blank in it.
IN = "$(DESTDIR)$(PREFIX)"
install: all
	install -d $(IN)/{bin,include/muster,lib/pkgconfig}
	install -m 644 include/muster/*.h $(IN)/include/muster/
	install -m 644 $(BUILD)/$(V)/libmuster.a $(IN)/lib/
	install -m 755 $(BUILD)/$(V)/libmuster.so.$(VERSION) $(IN)/lib/
	ln -sfn libmuster.so.$(VERSION) $(IN)/lib/$(SONAME)
	ln -sfn $(SONAME) $(IN)/lib/libmuster.so
	$(if $(PLUGINS),install -m 755 $(PLUGINS:%=$(BUILD)/$(V)/%) $(IN)/lib/)
	$(foreach f,$(LIBPMI) $(GUARD),install -D -m 755 $(BUILD)/$(V)/$(f) $(IN)/lib/muster/$(f);)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' muster.pc.in \
		> $(IN)/lib/pkgconfig/muster.pc
	$(foreach p,$(LIB_PROTO),install -D -m 644 $(p) $(IN)/share/muster/proto/$(p:src/%=%);)
	$(if $(call is_quick,$(V)),install -D -m 755 $(BUILD)/$(V)/whole/muster $(IN)/lib/muster/muster)
	$(if $(EXE_SRC),install -m 755 $(BUILD)/$(V)/muster $(IN)/bin/)
	$(if $(call is_quick,$(V)),,rm -f $(IN)/lib/muster/muster)
	$(foreach m,$(INSTALLED_MAN),install -D -m 644 man/$(notdir $(m)) $(IN)/$(m);)
	install -D -m 644 completions/muster $(IN)/share/bash-completion/completions/muster

uninstall:
	rm -f $(IN)/bin/muster $(IN)/lib/libmuster.{a,so,so.*} \
		$(PLUGINS:%=$(IN)/lib/%) \
		$(IN)/lib/pkgconfig/muster.pc $(INSTALLED_MAN:%=$(IN)/%)
	rm -rf $(IN)/include/muster $(IN)/lib/muster $(IN)/share/muster $(IN)/share/bash-completion/completions/muster

format:
	clang-format -i $(FORMATTED)
format-check:
	clang-format --dry-run -Werror $(FORMATTED)

clean:
	rm -rf $(VARIANTS:%=$(BUILD)/%) $(BUILD)/proto $(BUILD)/muster.pc

help:
	@cat scripts/help.txt
