/*
 * kernel/private.h: what the files of the room share.
 *
 *   tensor.c   tensors in memory           proto.c     as messages
 *   registry.c the ops, as lists           ops.c       the table of them
 *   graph.c    a graph, checked            attr.c      what a node says of itself
 *   step.c     a step of it                call.c      what a kernel says
 *   rendezvous.c, resource.c, queue.c   what outlives a node's run
 *   element.c  one element at a time       reduce.c    sums and their like
 *   shape.c    shapes                      array.c     places
 *   matmul.c   products
 *   state.c    variables                   random.c    random numbers
 */
#ifndef MU_KERNEL_PRIVATE_H
#define MU_KERNEL_PRIVATE_H

#include "kernel/kernel.h"

struct mu_kernel_call;
struct mu_kernel_node;
struct mu_kernel_wait;

/* ---- ops.c, registry.c ------------------------------------------------------------------------------------------- */

enum mu_kop_flags {
    MU_OP_STATEFUL = 1,
    MU_OP_COMMUTATIVE = 2,
    MU_OP_AGGREGATE = 4,
    MU_OP_UNINIT = 8, /* takes a variable that has no value */
    MU_OP_PURE =
        16, /* its kernel reads its inputs, makes its outputs, and touches nothing else: it may run elsewhere */
    MU_OP_CHANGE = 32, /* it changes a variable: mu_change_begin() */
};

/* Done, or failed with call->error; or its wait will end it: mu_kernel_wait_end(). */
enum mu_run { MU_RUN_DONE, MU_RUN_FAILED, MU_RUN_WAITS };
typedef enum mu_run mu_kernel_run(struct mu_kernel_call *call);

/*
 * "x:T", "ref:&T" (by reference), "values:N*T", "data:*T" (T: a list of types), "x:b" (a type by its letter).
 * Attributes: "T:type=i": its default; "N:int>1": its least value; "T:type{fd}": the kernel's types.
 * Letters: float f, double d, int32 i, int64 l, bool b, string s, resource r.
 */
struct mu_kop {
    const char *name, *inputs, *outputs, *attrs;
    unsigned flags;
    mu_kernel_run *run;
    int which; /* of the several things that `run` can do */
};
extern const struct mu_kop mu_kops[]; /* by name; ends with a NULL */
extern const unsigned mu_num_kops;
/* Its place in mu_kops; -1: there is none. */
int mu_kop_find(const char *name);
const Mu__Graph__OpDef *mu_kop_def(int op);                                       /* NULL: no memory */
bool mu_kop_takes(int op, const Mu__Graph__NodeDef *node, const char **ret_attr); /* the kernel's types; false: which */

/* ---- attr.c: an attribute, or its default; what a checked node has, is there ------------------------------------- */

const Mu__Graph__AttrValue *mu_attr_find(const Mu__Graph__NodeDef *def, const Mu__Graph__OpDef *op, const char *name);
unsigned mu_attr_type(const struct mu_kernel_node *node, const char *name);
int64_t mu_attr_int(const struct mu_kernel_node *node, const char *name);
bool mu_attr_bool(const struct mu_kernel_node *node, const char *name);
ProtobufCBinaryData mu_attr_bytes(const struct mu_kernel_node *node, const char *name);
const Mu__Graph__ListValue *mu_attr_list(const struct mu_kernel_node *node, const char *name);
/* False: its rank is not known, or too large. */
bool mu_attr_shape(const struct mu_kernel_node *node, const char *name, struct mu_dims *ret_shape);
/* All attributes of the op are there and of their kind. */
bool mu_attrs_check(const Mu__Graph__NodeDef *def, const Mu__Graph__OpDef *op, struct mu_kernel_error *error);

/* ---- graph.c ----------------------------------------------------------------------------------------------------- */

struct mu_kernel_edge {
    uint32_t node;
    uint32_t output; /* of that node */
};

struct mu_kernel_node {
    const Mu__Graph__NodeDef *def;
    const struct mu_kop *op;
    const Mu__Graph__OpDef *op_def;
    struct mu_kernel_graph *graph;
    uint32_t num_inputs, num_controls, num_outputs;
    uint32_t first_slot;           /* of its outputs among those of the graph */
    struct mu_kernel_edge *inputs; /* data, then control */
    uint8_t *in_types, *out_types; /* a reference's is 100 more */
    uint32_t *users, num_users;    /* nodes that wait for it, once for each edge */
    uint32_t *slot_users;          /* of each output: how many data edges */
    struct mu_tensor *value;       /* of a constant */
    char *key;                     /* of a _Send or _Recv */
    uint64_t serial;               /* its runs so far */
};

struct mu_kernel_graph {
    uint32_t holders, num_nodes, num_slots;
    size_t spare; /* for its constants: mu_tensor_decode() */
    struct mu_kernel_home home;
    char *container;
    Mu__Graph__GraphDef *def;
    struct mu_kernel_node *nodes;
};

/* ---- step.c, call.c ---------------------------------------------------------------------------------------------- */

struct mu_kernel_value {
    struct mu_tensor *tensor;
    struct mu_resource *ref; /* a variable by reference; then there is no tensor */
};

/* state.c: a change of a variable that is under way. All three are held. */
struct mu_change {
    struct mu_resource *variable;
    struct mu_tensor *from, *to;
};

/* One run of a node. Inputs are the step's, outputs the call's. A reference that is not taken as one has been read. */
struct mu_kernel_call {
    const struct mu_kernel_node *node;
    struct mu_kernel_step *step;
    const struct mu_kernel_waiting *waiting; /* the step's */
    struct mu_rendezvous *rendezvous;        /* likewise */
    uint32_t at;                             /* the node's number */
    struct mu_kernel_value *in, *out;
    uint64_t serial;
    struct mu_change change;
    const _Atomic bool *gives_up; /* of a call in another thread; NULL: it runs in the loop */
    struct mu_kernel_error error;
};
/* Nobody wants its outputs any more: what takes long looks at this now and then, and ends by mu_run_give_up(). */
static inline bool mu_run_gives_up(const struct mu_kernel_call *call)
{
    /* process-local, relaxed: a hint, which waits_let_go() gives */
    return call->gives_up && atomic_load_explicit(call->gives_up, memory_order_relaxed);
}
enum mu_run mu_run_give_up(struct mu_kernel_call *call);
#define MU_GLANCE 65536u /* elements between two looks */
/* The rest of a run: an error, as a kernel returns it. */
enum mu_run mu_run_fail(struct mu_kernel_call *call, enum muster_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An output of this type and shape; NULL: the call's error says why. */
struct mu_tensor *mu_run_output(struct mu_kernel_call *call, uint32_t output, unsigned dtype,
                                const struct mu_dims *shape);
/* A one-dimensional tensor of int32 or int64 as numbers. False: it is none, or has more. */
bool mu_run_numbers(struct mu_kernel_call *call, uint32_t input, const char *what, uint32_t most, int64_t *ret,
                    uint32_t *ret_count);

/* A node that waits. Its owner has it in a list, from which let_go takes it when the step is cancelled. */
struct mu_kernel_wait {
    struct mu_kernel_wait *next, *prev;
    struct mu_kernel_wait *step_next, *step_prev; /* of its step's */
    const struct mu_kernel_waiting *waiting;
    const struct mu_kernel_node *node;
    struct mu_kernel_step *step;
    uint32_t at;
    void *owner;
    void (*let_go)(struct mu_kernel_wait *wait);
    struct mu_tensor **tensors; /* what it gives, or gets: held */
    uint32_t num_tensors;
    const char *key;
};
struct mu_kernel_waiting {
    struct mu_kernel_wait *(*begin)(struct mu_kernel_call *call, void *owner,
                                    void (*let_go)(struct mu_kernel_wait *wait), uint32_t num_tensors);
    void (*end)(struct mu_kernel_wait *wait, bool gives, enum muster_status status, const char *text);
};
/* With room for so many tensors. NULL: no memory, and the call's error says so. */
static inline struct mu_kernel_wait *mu_kernel_wait_new(struct mu_kernel_call *call, void *owner,
                                                        void (*let_go)(struct mu_kernel_wait *wait),
                                                        uint32_t num_tensors)
{
    return call->waiting->begin(call, owner, let_go, num_tensors);
}
/* Its node is done, with its tensors as outputs where it `gives`, or has failed. The wait is gone. */
static inline void mu_kernel_wait_end(struct mu_kernel_wait *wait, bool gives, enum muster_status status,
                                      const char *text)
{
    wait->waiting->end(wait, gives, status, text);
}

/* ---- resource.c, queue.c ----------------------------------------------------------------------------------------- */

enum mu_resource_kind { MU_RESOURCE_VARIABLE, MU_RESOURCE_QUEUE };
struct mu_fifo;

struct mu_resource {
    struct mu_resource *next; /* of its bucket */
    struct mu_resources *home;
    uint32_t holders; /* its place in the table is one */
    uint8_t kind, dtype;
    bool is_gone; /* no longer in the table */
    struct mu_tensor *value;
    struct mu_fifo *queue;
    char *container, *name;
};
struct mu_resource *mu_resource_find(struct mu_resources *resources, const char *container, const char *name);
struct mu_resource *mu_resource_make(struct mu_resources *resources, enum mu_resource_kind kind, const char *container,
                                     const char *name, struct mu_kernel_error *error); /* found, or made */
void mu_resource_forget(struct mu_resource *resource);                                 /* takes it out of the table */
struct mu_resource *mu_resource_hold(struct mu_resource *resource);
void mu_resource_drop(struct mu_resource *resource);
void mu_fifo_free(struct mu_fifo *queue); /* ends what waits for it */
/* The container of a node, and the name that its variable or queue has. */
const char *mu_resource_container(const struct mu_kernel_node *node, char text[256]);
const char *mu_resource_name(const struct mu_kernel_node *node, char text[1024]);
/* The handle as a tensor; and the table that a handle's resource is in. */
enum mu_run mu_run_handle(struct mu_kernel_call *call, bool is_own, const char *container, const char *name);
struct mu_resource *mu_run_resource(struct mu_kernel_call *call, uint32_t input, enum mu_resource_kind kind);

/* ---- the kernels ------------------------------------------------------------------------------------------------- */

enum mu_binary {
    MU_ADD,
    MU_SUB,
    MU_MUL,
    MU_DIV,
    MU_FLOORDIV,
    MU_FLOORMOD,
    MU_MAXIMUM,
    MU_MINIMUM,
    MU_SQDIFF,
    MU_POW,
    MU_LAST_NUMBER = MU_POW,
    MU_EQUAL,
    MU_NOTEQUAL,
    MU_LESS,
    MU_LESSEQUAL,
    MU_GREATER,
    MU_GREATEREQUAL,
    MU_AND,
    MU_OR,
    MU_DESCEND, /* of variables alone */
};
enum mu_unary {
    MU_NEG,
    MU_SQUARE,
    MU_SQRT,
    MU_RSQRT,
    MU_EXP,
    MU_LOG,
    MU_ABS,
    MU_SIGN,
    MU_TANH,
    MU_SIGMOID,
    MU_RELU,
    MU_RECIPROCAL,
    MU_FLOOR,
    MU_NOT,
    MU_ZEROS,
    MU_ONES,
};
enum mu_reduction { MU_SUM, MU_MEAN, MU_PROD, MU_MAX, MU_MIN, MU_ALL, MU_ANY };
enum mu_random { MU_UNIFORM, MU_NORMAL, MU_TRUNCATED };

mu_kernel_run mu_run_binary, mu_run_unary, mu_run_reduce, mu_run_matmul, mu_run_cast, mu_run_addn;
mu_kernel_run mu_run_noop, mu_run_const, mu_run_unfed, mu_run_identity, mu_run_assert;
mu_kernel_run mu_run_fill, mu_run_shape, mu_run_rank, mu_run_size, mu_run_reshape, mu_run_expand, mu_run_squeeze;
mu_kernel_run mu_run_tile, mu_run_broadcast_args, mu_run_gather, mu_run_pack, mu_run_slice, mu_run_transpose;
mu_kernel_run mu_run_select, mu_run_random;
mu_kernel_run mu_run_variable, mu_run_assign, mu_run_is_initialized, mu_run_change;
mu_kernel_run mu_run_var_handle, mu_run_var_assign, mu_run_var_read;
mu_kernel_run mu_run_var_is_initialized, mu_run_destroy;
mu_kernel_run mu_run_fifo, mu_run_enqueue, mu_run_dequeue, mu_run_queue_close, mu_run_queue_size,
    mu_run_queue_is_closed;
mu_kernel_run mu_run_send, mu_run_recv;

/* element.c: a and b broadcast to one shape. False: they cannot be. */
bool mu_dims_broadcast(const struct mu_dims *a, const struct mu_dims *b, struct mu_dims *ret_shape);
/* to = to op by, of one shape and a type of numbers: these elements. */
void mu_numbers_change(enum mu_binary what, struct mu_tensor *to, const struct mu_tensor *by, size_t at, size_t count);
/* state.c: the steps of a call that changes a variable. False: it fails. */
bool mu_change_begin(struct mu_kernel_call *call);
enum mu_run mu_change_work(struct mu_kernel_call *call); /* in any thread */
/* False: the variable has another value by now: mu_change_again(), mu_change_begin(). */
bool mu_change_end(struct mu_kernel_call *call);
void mu_change_again(struct mu_kernel_call *call);
void mu_change_drop(struct mu_kernel_call *call); /* what it holds */
/* How much work a call is, in elements, about. */
size_t mu_kernel_cost(const struct mu_kernel_call *call);

#endif
