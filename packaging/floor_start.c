/*
 * packaging/floor_start.c: starts a program that is linked by floor.py.
 *
 * Before glibc 2.34 a program brought the function that runs its constructors, and gave it to __libc_start_main(). The
 * start file of a newer glibc gives none, for the newer __libc_start_main() runs them itself: an older one would run
 * none. So one is given, as older start files did; a newer glibc, called by the old symbol, then leaves them to it.
 */
typedef void (*constructor_fn)(int argc, char **argv, char **env);

extern constructor_fn __preinit_array_start[] __attribute__((visibility("hidden")));
extern constructor_fn __preinit_array_end[] __attribute__((visibility("hidden")));
extern constructor_fn __init_array_start[] __attribute__((visibility("hidden")));
extern constructor_fn __init_array_end[] __attribute__((visibility("hidden")));

int __real___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor_fn init,
                             void (*fini)(void), void (*loader_fini)(void), void *stack_end);
int __wrap___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor_fn init,
                             void (*fini)(void), void (*loader_fini)(void), void *stack_end);

static void constructors_run(int argc, char **argv, char **env)
{
    for (constructor_fn *next = __preinit_array_start; next < __preinit_array_end; next++)
        (*next)(argc, argv, env);
    for (constructor_fn *next = __init_array_start; next < __init_array_end; next++)
        (*next)(argc, argv, env);
}

int __wrap___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor_fn init,
                             void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
    return __real___libc_start_main(main, argc, argv, init ? init : constructors_run, fini, loader_fini, stack_end);
}
