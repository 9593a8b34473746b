/*
 * cli/topo/pen.c: the elements of the picture of a machine: text that fits, boxes, and how they look.
 *
 * Nothing is fetched: no font, no script. Colours are classes, with a second set for dark pages; what does not know
 * that question shows the light ones on a light ground.
 */
#include <string.h>

#include "cli/topo/svg.h"

int mu_svg_width(size_t letters, int size)
{
    return letters > 4096 ? 4096 * size : ((int)letters * size * 61 + 99) / 100;
}

/* A letter beyond ASCII may be as wide as two. */
static size_t letters_of(size_t bytes)
{
    return bytes > 1 ? 2 : 1;
}

size_t mu_svg_letters(const char *text)
{
    size_t letters = 0, left = strlen(text);

    while (left) {
        size_t bytes = mu_cli_utf8_length(text, left);

        letters += letters_of(bytes);
        bytes += bytes == 0;
        text += bytes;
        left -= bytes;
    }
    return letters;
}

static void text_escape(FILE *out, const char *text, size_t left, size_t letters)
{
    while (left) {
        size_t bytes = mu_cli_utf8_length(text, left);
        int is_none = (bytes == 3 && memcmp(text, "\xef\xbf", 2) == 0 && (text[2] & 0xfe) == 0xbe) ||
                      (bytes == 1 && (*text == 0x7f || (unsigned char)*text < 0x20)) || bytes == 0 ||
                      mu_cli_is_c1(text, left);

        if (letters_of(bytes) > letters)
            return;
        letters -= letters_of(bytes);
        bytes += bytes == 0;
        if (is_none)
            putc('?', out);
        else if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            fputs(*text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : "&quot;", out);
        else
            fwrite(text, 1, bytes, out);
        text += bytes;
        left -= bytes;
    }
}

void mu_svg_escape(FILE *out, const char *text)
{
    text_escape(out, text, strlen(text), SIZE_MAX);
}

void mu_svg_text(FILE *out, int x, int y, int size, int room, const char *how, const char *text)
{
    size_t letters = mu_svg_letters(text), fit = room < 0 ? 0 : (size_t)(room * 100 / (size * 61));

    if (fit < 3 && letters > fit)
        return;
    fprintf(out, "<text x=\"%d\" y=\"%d\" class=\"f%d %s\">", x, y, size, how);
    text_escape(out, text, strlen(text), letters > fit ? fit - 2 : letters);
    fprintf(out, "%s</text>\n", letters > fit ? ".." : "");
}

void mu_svg_rect(FILE *out, const struct mu_svg_place *place, int radius, const char *how)
{
    fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" class=\"%s\"/>\n", place->x, place->y,
            place->width, place->height, radius, how);
}

void mu_svg_pill(FILE *out, int x, int y, int room, const char *how, const char *text)
{
    struct mu_svg_place place = {x, y, mu_svg_width(mu_svg_letters(text), MU_SVG_SMALL) + 8, MU_SVG_PILL - 2};

    if (place.width > room)
        place.width = room;
    mu_svg_rect(out, &place, 5, how);
    mu_svg_text(out, x + 4, y + 9, MU_SVG_SMALL, place.width - 6, "on", text);
}

struct pen_look {
    const char *name, *light, *dark;
};

/* A machine is grey, memory blue, PCI violet, accelerators green, links purple, ranks orange. */
static const struct pen_look looks[] = {
    {".page", "fill:#ffffff", "fill:#0d1117"},
    {"text", "fill:#1f2328", "fill:#e6edf3"},
    {".dim", "fill:#59636e", "fill:#9198a1"},
    {".package", "fill:#f6f8fa;stroke:#a5aeb8", "fill:#161b22;stroke:#4b535d"},
    {".numa", "fill:#e8f2ff;stroke:#8db8ea", "fill:#0f2340;stroke:#325f9c"},
    {".l3", "fill:#ffffff;stroke:#8db8ea", "fill:#0b1729;stroke:#325f9c"},
    {".core", "fill:#7fb2ec", "fill:#3f7cc4"},
    {".ecore", "fill:#a9d6b4", "fill:#4f9465"},
    {".kcore", "fill:#c9b6e6", "fill:#7a62a8"},
    {".used", "fill:#e8833a", "fill:#e8833a"},
    {".pci", "fill:#ffffff;stroke:#b9a5e2", "fill:#151226;stroke:#5d4a94"},
    {".fork", "fill:#f2edfc;stroke:#b9a5e2", "fill:#1f1938;stroke:#5d4a94"},
    {".gpu", "fill:#dcf5e1;stroke:#2c9c48", "fill:#10301b;stroke:#3fb950"},
    {".part", "fill:#f4fcf5;stroke:#2c9c48", "fill:#0a2012;stroke:#3fb950"},
    {".bad", "fill:#ffe1de;stroke:#cf222e", "fill:#3d1214;stroke:#f85149"},
    {".nvswitch", "fill:#f9e6f7;stroke:#b4459f", "fill:#331430;stroke:#d26fc0"},
    {".bar", "fill:#9a3a88", "fill:#a8479a"},
    {".wire", "fill:none;stroke:#9a3a88", "fill:none;stroke:#cf6fc0"},
    {"text.link", "fill:#8a2f79", "fill:#e08fd2"},
    {"text.tag", "fill:#8a2f79;stroke:#ffffff;stroke-width:4px;paint-order:stroke",
     "fill:#e08fd2;stroke:#0d1117;stroke-width:4px;paint-order:stroke"},
    {".rank", "fill:#c9631a", "fill:#d9722a"},
    {"text.on", "fill:#ffffff", "fill:#ffffff"},
};

void mu_svg_begin(const struct mu_svg_sheet *sheet)
{
    FILE *out = sheet->out;

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n"
            "<title>",
            sheet->width, sheet->height, sheet->width, sheet->height);
    mu_svg_escape(out, mu_cli_topo_name(sheet->topo));
    fputs(": ", out);
    mu_cli_topo_summary(sheet->topo, out);
    fprintf(out, "</title>\n<style>\n"
                 "text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',"
                 "monospace}\n"
                 ".f9{font-size:9px}.f10{font-size:10px}.f15{font-size:15px}.b{font-weight:600}\n"
                 ".m{text-anchor:middle}\n");
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        fprintf(out, "%s{%s}\n", looks[i].name, looks[i].light);
    fputs("@media (prefers-color-scheme:dark){\n", out);
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        fprintf(out, "%s{%s}\n", looks[i].name, looks[i].dark);
    fprintf(out, "}\n</style>\n<rect width=\"%d\" height=\"%d\" class=\"page\"/>\n", sheet->width, sheet->height);
}
