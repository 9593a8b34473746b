/*
 * tests/kernel/stage.h: graphs and tensors as short text, and one step of them.
 *
 * A graph has a node a line: "NAME OP INPUT,INPUT,^CONTROL ATTR=VALUE ...", "-" for no inputs; or "NAME = TENSOR", a
 * constant. A tensor is "f[2,2]:1,2,3,4": its type's letter (f d i l b s), its shape, its elements (fewer: the last one
 * again). Values of attributes: "t:f" a type, "T:fi" types, "i:3", "b:1", "s:text", "h:2,-1" a shape, "H:2;3,4" shapes.
 */
#ifndef TEST_KERNEL_STAGE_H
#define TEST_KERNEL_STAGE_H

#include "cm.h"

#include "kernel/kernel.h"

struct stage {
    struct mu_kernel_memory memory;
    struct mu_resources *shared, *own;
    unsigned woken;
};
extern struct stage stage; /* what outlives steps; made by stage_open() for each test */
int stage_open(void);
int stage_close(void); /* fails where a tensor or a resource is left */
#define STAGE_TEST(name) TEST_WITH(name, stage_open, stage_close)

Mu__Graph__GraphDef *graph_text(const char *text); /* freed as protobuf-c frees */
struct mu_tensor *tensor_text(const char *text);

/* The graph, with what is fetched sent under the keys "0", "1", each behind its type: "f a,i b:1". NULL: error says
 * why. */
struct mu_kernel_graph *graph_take(const char *text, const char *fetch, struct mu_kernel_error *error);
/* One step: MUSTER_OK, and what was fetched; or its error. */
struct step {
    struct mu_kernel_graph *graph;
    struct mu_rendezvous *rendezvous;
    struct mu_kernel_step *step;
    enum mu_step_state is;
};
void step_begin(struct step *s, const char *text, const char *fetch); /* and runs it as far as it goes */
void step_go(struct step *s);
void step_end(struct step *s);
/* What was fetched is this tensor, exactly or nearly. */
void step_gave(struct step *s, unsigned number, const char *tensor);
void step_failed(struct step *s, enum muster_status status, const char *words);

/* The same in one. */
void expect(const char *text, const char *fetch, const char *tensor);
void expect_error(const char *text, const char *fetch, enum muster_status status, const char *words);
/* A graph that is not taken. */
void expect_refused(const char *text, enum muster_status status, const char *words);

#endif
