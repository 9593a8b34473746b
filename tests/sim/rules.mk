# The scheduler owns what would make a run differ from its replay: memory (an arena that each schedule empties, so that
# what the killed held is no leak) and the number of processors.
LDLIBS_sim := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free,--wrap=mu_processors
