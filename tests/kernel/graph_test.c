/*
 * tests/kernel/graph_test.c: TensorFlow's graphs as bytes: what a client of TensorFlow 2.21 sent, and what muster does
 * not know of them.
 */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

#include "kernel/graph.pb-c.h"

/* Const = 3, Const_1 = 4, add = AddV2, as CreateSession had them. */
static const char sent[] =
    "0a320a05436f6e73741205436f6e73742a0b0a056474797065120230012a150a0576616c7565120c420a080112002a04000040400a340a0743"
    "6f6e73745f311205436f6e73742a150a0576616c7565120c420a080112002a04000080402a0b0a056474797065120230010a250a0361646412"
    "0541646456321a05436f6e73741a07436f6e73745f312a070a0154120230011200220308aa13";

static size_t bytes_of(const char *hex, uint8_t *to)
{
    size_t len = strlen(hex) / 2;

    for (size_t i = 0; i < len; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};

        to[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return len;
}

TEST(a_graph_of_a_real_client_is_read)
{
    uint8_t bytes[512];
    size_t len = bytes_of(sent, bytes);
    Mu__Graph__GraphDef *graph = mu__graph__graph_def__unpack(NULL, len, bytes);

    assert_non_null(graph);
    assert_int_equal(graph->n_node, 3);
    assert_string_equal(graph->node[2]->op, "AddV2");
    assert_string_equal(graph->node[2]->input[1], "Const_1");
    assert_int_equal(graph->node[2]->attr[0]->value->value_case, MU__GRAPH__ATTR_VALUE__VALUE_TYPE);
    assert_int_equal(graph->node[2]->attr[0]->value->type, MU__GRAPH__DATA_TYPE__DT_FLOAT);
    assert_true(graph->node[1]->attr[0]->value->tensor->float_val[0] == 4.0f);
    assert_int_equal(graph->versions->producer, 2474);
    assert_true(graph->has_library && graph->library.len == 0);
    mu__graph__graph_def__free_unpacked(graph, NULL);
}

/* Fields 60 of a graph, of a node, of an attribute's value and of a tensor: all are there again. */
TEST(unknown_fields_are_kept)
{
    uint8_t bytes[512], again[512];
    size_t len;
    Mu__Graph__GraphDef *graph;

    /* A node "x" of op "c" with the attribute "v", a tensor. */
    len = bytes_of("0a20"
                   "0a0178"
                   "120163"
                   "2a13"
                   "0a0176"
                   "120e"
                   "4207"
                   "0801"
                   "e20302746e"
                   "e203027661"
                   "e203026e6f"
                   "e203026772",
                   bytes);
    graph = mu__graph__graph_def__unpack(NULL, len, bytes);
    assert_non_null(graph);
    assert_int_equal(mu__graph__graph_def__get_packed_size(graph), len);
    assert_int_equal(mu__graph__graph_def__pack(graph, again), len);
    assert_memory_equal(again, bytes, len);
    mu__graph__graph_def__free_unpacked(graph, NULL);
}
