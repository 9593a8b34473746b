/*
 * cli/topo/matrix.c: how each GPU reaches each other one and the memory, with the words of nvidia-smi topo -m.
 *
 * Parts of a GPU are not in it: between them there is their GPU. Without a GPU the processors stand in it. On a
 * terminal that is too narrow the columns come in groups, each with the names of the rows again.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/topo/topo.h"

struct matrix {
    const struct mu_cli_topo *topo;
    size_t *rows; /* devices, by place */
    size_t num_rows;
    size_t num_columns; /* the rows, then the memory nodes */
    size_t width;       /* of a column */
    size_t head;        /* of the rows' names */
};

static struct muster_link link_at(const struct matrix *matrix, size_t row, size_t column)
{
    const struct muster_topology *topology = matrix->topo->topology;

    return column < matrix->num_rows
               ? muster_topology_link(topology, matrix->rows[row], matrix->rows[column])
               : muster_topology_numa_link(topology, matrix->rows[row], column - matrix->num_rows);
}

static const char *column_name(const struct matrix *matrix, size_t column, char buffer[16])
{
    if (column < matrix->num_rows)
        return matrix->topo->labels[matrix->rows[column]];
    snprintf(buffer, 16, "NUMA%d",
             (int)muster_topology_numa(matrix->topo->topology, column - matrix->num_rows)->number);
    return buffer;
}

static void columns_measure(struct matrix *matrix)
{
    char name[16];

    for (size_t column = 0; column < matrix->num_columns; column++) {
        size_t length = strlen(column_name(matrix, column, name));

        if (length > matrix->width)
            matrix->width = length;
        if (column < matrix->num_rows && length > matrix->head)
            matrix->head = length;
        for (size_t row = 0; row < matrix->num_rows; row++) {
            length = strlen(muster_link_name(link_at(matrix, row, column), name, sizeof name));
            if (length > matrix->width)
                matrix->width = length;
        }
    }
    matrix->width += 2;
    matrix->head += 2;
}

/* Nothing follows the last column of a group that is not the last one. */
static void put_cell(const struct matrix *matrix, const char *text, int is_end, FILE *out)
{
    fprintf(out, "%s%*s", text, is_end ? 0 : (int)(matrix->width - strlen(text)), "");
}

/* The columns [first, end); behind the last ones the processors nearby. */
static void put_group(const struct matrix *matrix, size_t first, size_t end, FILE *out)
{
    int is_last = end == matrix->num_columns;
    char name[16];

    fprintf(out, "%s%*s", out == stdout ? mu_cli_colour(MU_CLI_BOLD) : "", (int)matrix->head, "");
    for (size_t column = first; column < end; column++)
        put_cell(matrix, column_name(matrix, column, name), !is_last && column + 1 == end, out);
    fprintf(out, "%s%s\n", is_last ? "CPUs" : "", out == stdout ? mu_cli_colour(MU_CLI_PLAIN) : "");
    for (size_t row = 0; row < matrix->num_rows; row++) {
        const char *cpus = muster_topology_device(matrix->topo->topology, matrix->rows[row])->cpus;

        fprintf(out, "%-*s", (int)matrix->head, matrix->topo->labels[matrix->rows[row]]);
        for (size_t column = first; column < end; column++)
            put_cell(matrix, muster_link_name(link_at(matrix, row, column), name, sizeof name),
                     !is_last && column + 1 == end, out);
        fprintf(out, "%s\n", !is_last ? "" : *cpus ? cpus : "-");
    }
}

static void put_legend(const struct matrix *matrix, FILE *out)
{
    unsigned seen = 0;
    const char *name, *meaning;

    for (size_t row = 0; row < matrix->num_rows; row++)
        for (size_t column = 0; column < matrix->num_columns; column++)
            seen |= 1u << link_at(matrix, row, column).level;
    for (unsigned level = 0; level <= MUSTER_LINK_UNKNOWN; level++) {
        meaning = mu_cli_topo_level((enum muster_link_level)level, &name);
        if (seen & 1u << level)
            fprintf(out, "  %-4s  %s\n", name, meaning);
    }
}

void mu_cli_topo_matrix(const struct mu_cli_topo *topo, unsigned width, FILE *out)
{
    struct matrix matrix = {.topo = topo, .rows = calloc(topo->num_devices + 1, sizeof *matrix.rows)};
    size_t group, first = 0;

    if (!matrix.rows)
        abort();
    for (size_t i = 0; i < topo->num_devices; i++)
        if (muster_topology_device(topo->topology, i)->kind != MUSTER_DEVICE_GPU_PART)
            matrix.rows[matrix.num_rows++] = i;
    matrix.num_columns = matrix.num_rows + topo->num_numas;
    columns_measure(&matrix);
    group = width > matrix.head + matrix.width ? (width - matrix.head) / matrix.width : 1;
    if (width == 0 || group >= matrix.num_columns)
        group = matrix.num_columns;
    do {
        size_t end = first + group < matrix.num_columns ? first + group : matrix.num_columns;

        if (first)
            putc('\n', out);
        put_group(&matrix, first, end, out);
        first = end;
    } while (first < matrix.num_columns);
    putc('\n', out);
    put_legend(&matrix, out);
    free(matrix.rows);
}
