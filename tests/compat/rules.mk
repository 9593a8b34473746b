# Where Debian's libpmix-dev has its headers, for the comparison with them; nobody else includes them.
CFLAGS_compat := $(addprefix -I,$(wildcard /usr/lib/*-linux-gnu*/pmix2/include))
