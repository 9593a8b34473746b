/*
 * packaging/hwloc.c: makes a shared library of hwloc's archive, which was compiled for programs.
 *
 * Code for programs reads variables of libc without the table that a shared library needs for it. So objcopy renames
 * them (hwloc.syms), and here are their values. Of udev hwloc asks what nothing of muster reads, and knows that there
 * may be none: it is told so.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#define LOCAL __attribute__((visibility("hidden")))

struct udev;
struct udev_device;

LOCAL FILE *mu_hwloc_stdout, *mu_hwloc_stderr;
LOCAL char *mu_hwloc_program_name, *mu_hwloc_program_short_name;

static __attribute__((constructor)) void variables_copy(void)
{
    mu_hwloc_stdout = stdout;
    mu_hwloc_stderr = stderr;
    mu_hwloc_program_name = program_invocation_name;
    mu_hwloc_program_short_name = program_invocation_short_name;
}

/* libudev.h need not be there. */
struct udev *udev_new(void);
struct udev *udev_unref(struct udev *udev);
struct udev_device *udev_device_new_from_subsystem_sysname(struct udev *udev, const char *subsystem, const char *name);
struct udev_device *udev_device_unref(struct udev_device *device);
const char *udev_device_get_property_value(struct udev_device *device, const char *key);

LOCAL struct udev *udev_new(void)
{
    return NULL;
}

LOCAL struct udev *udev_unref(struct udev *udev)
{
    (void)udev;
    return NULL;
}

LOCAL struct udev_device *udev_device_new_from_subsystem_sysname(struct udev *udev, const char *subsystem,
                                                                 const char *name)
{
    (void)udev;
    (void)subsystem;
    (void)name;
    return NULL;
}

LOCAL struct udev_device *udev_device_unref(struct udev_device *device)
{
    (void)device;
    return NULL;
}

LOCAL const char *udev_device_get_property_value(struct udev_device *device, const char *key)
{
    (void)device;
    (void)key;
    return NULL;
}
