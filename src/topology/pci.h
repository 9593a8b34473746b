/*
 * topology/pci.h: addresses on PCI buses, and which of the devices there are accelerators.
 */
#ifndef MU_TOPOLOGY_PCI_H
#define MU_TOPOLOGY_PCI_H

#include <stddef.h>
#include <stdint.h>

struct mu_pci {
    uint32_t domain;
    uint8_t bus, device, function;
};

enum {
    MU_VENDOR_NVIDIA = 0x10de,
    MU_VENDOR_AMD = 0x1002,
    MU_VENDOR_INTEL = 0x8086,
};

/* "0000:3b:00.0", "00000000:3B:00.0", "10000:e1:00.0"; nothing may follow. 0, or -1: that is no address. */
int mu_pci_parse(const char *text, struct mu_pci *ret_pci);
/* As sysfs writes it; `size` 24 is enough. */
const char *mu_pci_print(const struct mu_pci *pci, char *buffer, size_t size);
/* <0, 0, >0 */
int mu_pci_compare(const struct mu_pci *a, const struct mu_pci *b);

enum mu_pci_kind {
    MU_PCI_OTHER, /* also the console of a server's service processor */
    MU_PCI_ACCELERATOR,
    MU_PCI_PERHAPS, /* a graphics card that is an accelerator when a compute driver serves it */
    MU_PCI_SWITCH,  /* of NVLinks */
};

/* `class` has 16 bits: 0x0302. */
enum mu_pci_kind mu_pci_kind(const struct mu_pci *pci, uint32_t vendor, uint32_t class);
/* "NVIDIA Corporation"; "": not one of those above. */
const char *mu_pci_vendor(uint32_t vendor);

#endif
