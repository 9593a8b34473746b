/* tests/fuzz/graph.h: what the fuzz target of graphs and its short form share. */
#ifndef TEST_FUZZ_GRAPH_H
#define TEST_FUZZ_GRAPH_H

#include <stddef.h>
#include <stdint.h>

struct graph_sum {
    unsigned refused, taken, done, failed, waited, nodes, tensors;
};
/*
 * The first byte: 0: the rest is a GraphDef, 1: a TensorProto; else a program, of six bytes for each node: its op, its
 * attributes, and which of the outputs that fit are its inputs. A graph that is taken is run, and cancelled if it
 * waits.
 */
void graph_try(const uint8_t *data, size_t size, struct graph_sum *sum);

#endif
