/*
 * cli/topo/svg.h: what the files that draw the picture of `muster topo --svg` share.
 *
 * All lengths are pixels, whole ones, so that equal machines give equal bytes. The font has letters of equal width,
 * which exceeds 0.61 of its size in no common one: a text's width is known by counting.
 */
#ifndef MU_CLI_TOPO_SVG_H
#define MU_CLI_TOPO_SVG_H

#include "cli/topo/topo.h"

enum {
    MU_SVG_PAD = 6,
    MU_SVG_GAP = 6,
    MU_SVG_HEAD = 16, /* a line of text above what is in a box */
    MU_SVG_PILL = 14, /* a line of ranks */
    MU_SVG_LINE = 12, /* of small text within a box */
    MU_SVG_SMALL = 9, /* sizes of letters */
    MU_SVG_COMMON = 10,
    MU_SVG_LARGE = 15,
    MU_SVG_MARGIN = 12,
};

struct mu_svg_place {
    int x, y, width, height;
};

struct mu_svg_sheet {
    const struct mu_cli_topo *topo;
    struct mu_svg_place *places; /* of boxes */
    char **ranks;                /* of boxes: "task 3"; "" for none */
    char **wires;                /* of devices: "NV6"; "" for none */
    int shows_models;            /* GPUs differ, so each has its name in it */
    int width, height;
    FILE *out;
};

/* ---- topo/pen.c: elements ---------------------------------------------------------------------------------------- */

/* The width of so many letters, or of a text. */
int mu_svg_width(size_t letters, int size);
size_t mu_svg_letters(const char *text);
/* Text, escaped; what is no text becomes "?". */
void mu_svg_escape(FILE *out, const char *text);
/* At most `room` pixels of it, then "..". `how`: a class, or several. */
void mu_svg_text(FILE *out, int x, int y, int size, int room, const char *how, const char *text);
void mu_svg_rect(FILE *out, const struct mu_svg_place *place, int radius, const char *how);
/* A pill with a text, `room` wide at most. */
void mu_svg_pill(FILE *out, int x, int y, int room, const char *how, const char *text);
/* The first line of the picture: its size, its name, and how it looks. */
void mu_svg_begin(const struct mu_svg_sheet *sheet);

/* ---- topo/svg.c: words ------------------------------------------------------------------------------------------- */

/* What stands above what is in a box. */
void mu_svg_head(const struct mu_box *box, char *text, size_t size);

/* ---- topo/layout.c: how large each box is, and where it is ------------------------------------------------------- */

/* `top` is where the machine begins. Returns the y below all. */
int mu_svg_layout(struct mu_svg_sheet *sheet, int top);
/* An address without the domain that nearly all have. */
const char *mu_svg_short_pci(const char *pci);

/* ---- topo/wires.c: NVLink and its like, below the machine -------------------------------------------------------- */

struct mu_svg_wires;

/* What wires there are, and how high their picture is; sheet->wires is filled. Freed with mu_svg_wires_free(). */
struct mu_svg_wires *mu_svg_wires_find(struct mu_svg_sheet *sheet);
int mu_svg_wires_height(const struct mu_svg_wires *wires);
void mu_svg_wires_draw(const struct mu_svg_sheet *sheet, const struct mu_svg_wires *wires, int top);
void mu_svg_wires_free(struct mu_svg_wires *wires);

#endif
