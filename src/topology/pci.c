/*
 * topology/pci.c: addresses on PCI buses, and which of the devices there are accelerators.
 *
 * Class alone misleads: an MI300 is a processing accelerator (1200), an MI250 a display controller (0380), an H100 a
 * "3D controller" (0302), and so is the console of a server's service processor a VGA card (0300). So vendor and class
 * decide together. NVIDIA makes no consoles, so its VGA cards are counted; AMD has (the ES1000), so its VGA cards count
 * only when a compute driver serves them.
 */
#include "topology/pci.h"

#include <ctype.h>
#include <stdio.h>

/* Digits, at least one and at most `max`, then `end`. Where it ended; NULL: no. */
static const char *read_hex(const char *text, int max, char end, uint32_t *ret_value)
{
    uint32_t value = 0;
    int digits = 0;

    for (; isxdigit((unsigned char)*text) && digits < max; text++, digits++)
        value = value * 16 + (uint32_t)(isdigit((unsigned char)*text) ? *text - '0' : (*text | 32) - 'a' + 10);
    if (digits == 0 || *text != end)
        return NULL;
    *ret_value = value;
    return end ? text + 1 : text;
}

int mu_pci_parse(const char *text, struct mu_pci *ret_pci)
{
    uint32_t domain, bus, device, function;

    if (!(text = read_hex(text, 8, ':', &domain)) || !(text = read_hex(text, 2, ':', &bus)) ||
        !(text = read_hex(text, 2, '.', &device)) || !read_hex(text, 1, '\0', &function) || device > 31 || function > 7)
        return -1;
    *ret_pci = (struct mu_pci){domain, (uint8_t)bus, (uint8_t)device, (uint8_t)function};
    return 0;
}

const char *mu_pci_print(const struct mu_pci *pci, char *buffer, size_t size)
{
    snprintf(buffer, size, "%04x:%02x:%02x.%x", pci->domain, pci->bus, pci->device, pci->function);
    return buffer;
}

int mu_pci_compare(const struct mu_pci *a, const struct mu_pci *b)
{
    if (a->domain != b->domain)
        return a->domain < b->domain ? -1 : 1;
    if (a->bus != b->bus)
        return a->bus - b->bus;
    return a->device != b->device ? a->device - b->device : a->function - b->function;
}

static const struct {
    uint32_t vendor, class;
    enum mu_pci_kind kind;
} kinds[] = {
    {MU_VENDOR_NVIDIA, 0x0302, MU_PCI_ACCELERATOR}, /* data-centre GPUs */
    {MU_VENDOR_NVIDIA, 0x0300, MU_PCI_ACCELERATOR}, /* those with connectors for screens */
    {MU_VENDOR_NVIDIA, 0x0680, MU_PCI_SWITCH},      /* NVSwitch: "other bridge" */
    {MU_VENDOR_AMD, 0x1200, MU_PCI_ACCELERATOR},    /* MI300 and later */
    {MU_VENDOR_AMD, 0x0380, MU_PCI_ACCELERATOR},    /* MI50 to MI250 */
    {MU_VENDOR_AMD, 0x0302, MU_PCI_ACCELERATOR},    {MU_VENDOR_AMD, 0x0300, MU_PCI_PERHAPS},
    {MU_VENDOR_INTEL, 0x0380, MU_PCI_ACCELERATOR}, /* Data Center GPU Max and Flex */
    {MU_VENDOR_INTEL, 0x0302, MU_PCI_ACCELERATOR},
};

enum mu_pci_kind mu_pci_kind(const struct mu_pci *pci, uint32_t vendor, uint32_t class)
{
    if (vendor == MU_VENDOR_INTEL && pci->bus == 0) /* the graphics of the processor */
        return MU_PCI_OTHER;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].vendor == vendor && kinds[i].class == class)
            return kinds[i].kind;
    return MU_PCI_OTHER;
}

const char *mu_pci_vendor(uint32_t vendor)
{
    switch (vendor) {
    case MU_VENDOR_NVIDIA: return "NVIDIA Corporation";
    case MU_VENDOR_AMD: return "Advanced Micro Devices, Inc";
    case MU_VENDOR_INTEL: return "Intel Corporation";
    default: return "";
    }
}
