/*
 * kernel/ops.c: the table of ops, in the order of their names: TensorFlow's, as far as muster has kernels for them.
 *
 * How a row is written: kernel/private.h.
 */
#include "kernel/private.h"

#include <string.h>

#define PURE    MU_OP_PURE
#define STATE   MU_OP_STATEFUL
#define CHANGES (MU_OP_STATEFUL | MU_OP_CHANGE)
#define NUMBERS "T:type{fdil}"
#define REALS   "T:type{fd}"
#define ANY     "T:type{fdilbs}"
#define DTYPE   "dtype:type{fdilbs}"
#define REDUCES NUMBERS " Tidx:type{il}=i keep_dims:bool=0"
#define LOGICAL "Tidx:type{il}=i keep_dims:bool=0"
#define PLACED  "container:string= shared_name:string="
#define LOCKED  " use_locking:bool=0"
#define RANDOM  "seed:int=0 seed2:int=0 dtype:type{fd} T:type{il}"
#define TRANSFER                                                                                                       \
    "tensor_name:string send_device:string send_device_incarnation:int recv_device:string client_terminated:bool=0"

#define BINARY(name, attrs, flags, what)                                                                               \
    {                                                                                                                  \
        name, "x:T y:T", "z:T", attrs, PURE | (flags), mu_run_binary, what                                             \
    }
#define COMPARES(name, attrs, flags, what)                                                                             \
    {                                                                                                                  \
        name, "x:T y:T", "z:b", attrs, PURE | (flags), mu_run_binary, what                                             \
    }
#define UNARY(name, attrs, what)                                                                                       \
    {                                                                                                                  \
        name, "x:T", "y:T", attrs, PURE, mu_run_unary, what                                                            \
    }
#define REDUCTION(name, what)                                                                                          \
    {                                                                                                                  \
        name, "input:T reduction_indices:Tidx", "output:T", REDUCES, PURE, mu_run_reduce, what                         \
    }

const struct mu_kop mu_kops[] = {
    UNARY("Abs", NUMBERS, MU_ABS),
    BINARY("Add", "T:type{fdils}", 0, MU_ADD),
    {"AddN", "inputs:N*T", "sum:T", "N:int>1 " NUMBERS, PURE | MU_OP_COMMUTATIVE | MU_OP_AGGREGATE, mu_run_addn, 0},
    BINARY("AddV2", NUMBERS, MU_OP_COMMUTATIVE | MU_OP_AGGREGATE, MU_ADD),
    {"All", "input:b reduction_indices:Tidx", "output:b", LOGICAL, PURE, mu_run_reduce, MU_ALL},
    {"Any", "input:b reduction_indices:Tidx", "output:b", LOGICAL, PURE, mu_run_reduce, MU_ANY},
    {"ApplyGradientDescent", "var:&T alpha:T delta:T", "out:&T", REALS LOCKED, MU_OP_CHANGE, mu_run_change, MU_DESCEND},
    {"Assert", "condition:b data:*T", "", "T:list(type){fdilbs}>1 summarize:int=3", STATE, mu_run_assert, 0},
    {"Assign", "ref:&T value:T", "output_ref:&T", ANY " validate_shape:bool=1 use_locking:bool=1", MU_OP_UNINIT,
     mu_run_assign, 0},
    {"AssignAdd", "ref:&T value:T", "output_ref:&T", NUMBERS LOCKED, MU_OP_CHANGE, mu_run_change, MU_ADD},
    {"AssignAddVariableOp", "resource:r value:dtype", "", "dtype:type{fdil}", CHANGES, mu_run_change, MU_ADD},
    {"AssignSub", "ref:&T value:T", "output_ref:&T", NUMBERS LOCKED, MU_OP_CHANGE, mu_run_change, MU_SUB},
    {"AssignSubVariableOp", "resource:r value:dtype", "", "dtype:type{fdil}", CHANGES, mu_run_change, MU_SUB},
    {"AssignVariableOp", "resource:r value:dtype", "", DTYPE " validate_shape:bool=0", STATE, mu_run_var_assign, 0},
    {"BroadcastGradientArgs", "s0:T s1:T", "r0:T r1:T", "T:type{il}=i", PURE, mu_run_broadcast_args, 0},
    {"Cast", "x:SrcT", "y:DstT", "SrcT:type{fdilb} DstT:type{fdilb} Truncate:bool=0", PURE, mu_run_cast, 0},
    {"Const", "", "output:dtype", "value:tensor " DTYPE, 0, mu_run_const, 0},
    {"DestroyResourceOp", "resource:r", "", "ignore_lookup_error:bool=1", STATE, mu_run_destroy, 0},
    BINARY("Div", NUMBERS, 0, MU_DIV),
    COMPARES("Equal", ANY " incompatible_shape_error:bool=1", MU_OP_COMMUTATIVE, MU_EQUAL),
    UNARY("Exp", REALS, MU_EXP),
    {"ExpandDims", "input:T dim:Tdim", "output:T", ANY " Tdim:type{il}=i", 0, mu_run_expand, 0},
    {"FIFOQueueV2", "", "handle:r", "component_types:list(type){fdilbs}>1 shapes:list(shape)= capacity:int=-1 " PLACED,
     STATE, mu_run_fifo, 0},
    {"Fill", "dims:index_type value:T", "output:T", ANY " index_type:type{il}=i", PURE, mu_run_fill, 0},
    UNARY("Floor", REALS, MU_FLOOR),
    BINARY("FloorDiv", NUMBERS, 0, MU_FLOORDIV),
    BINARY("FloorMod", NUMBERS, 0, MU_FLOORMOD),
    {"GatherV2", "params:Tparams indices:Tindices axis:Taxis", "output:Tparams",
     "batch_dims:int=0 Tparams:type{fdilbs} Tindices:type{il} Taxis:type{il}", PURE, mu_run_gather, 0},
    COMPARES("Greater", NUMBERS, 0, MU_GREATER),
    COMPARES("GreaterEqual", NUMBERS, 0, MU_GREATEREQUAL),
    {"Identity", "input:T", "output:T", "T:type{fdilbsr}", 0, mu_run_identity, 0},
    {"IsVariableInitialized", "ref:&dtype", "is_initialized:b", DTYPE, MU_OP_UNINIT, mu_run_is_initialized, 0},
    COMPARES("Less", NUMBERS, 0, MU_LESS),
    COMPARES("LessEqual", NUMBERS, 0, MU_LESSEQUAL),
    UNARY("Log", REALS, MU_LOG),
    {"LogicalAnd", "x:b y:b", "z:b", "", PURE | MU_OP_COMMUTATIVE, mu_run_binary, MU_AND},
    {"LogicalNot", "x:b", "y:b", "", PURE, mu_run_unary, MU_NOT},
    {"LogicalOr", "x:b y:b", "z:b", "", PURE | MU_OP_COMMUTATIVE, mu_run_binary, MU_OR},
    {"MatMul", "a:T b:T", "product:T", "transpose_a:bool=0 transpose_b:bool=0 " NUMBERS " grad_a:bool=0 grad_b:bool=0",
     PURE, mu_run_matmul, 0},
    REDUCTION("Max", MU_MAX),
    BINARY("Maximum", NUMBERS, 0, MU_MAXIMUM),
    REDUCTION("Mean", MU_MEAN),
    REDUCTION("Min", MU_MIN),
    BINARY("Minimum", NUMBERS, 0, MU_MINIMUM),
    BINARY("Mul", NUMBERS, MU_OP_COMMUTATIVE, MU_MUL),
    UNARY("Neg", NUMBERS, MU_NEG),
    {"NoOp", "", "", "", 0, mu_run_noop, 0},
    COMPARES("NotEqual", ANY " incompatible_shape_error:bool=1", MU_OP_COMMUTATIVE, MU_NOTEQUAL),
    UNARY("OnesLike", "T:type{fdilb}", MU_ONES),
    {"Pack", "values:N*T", "output:T", "N:int>1 " ANY " axis:int=0", PURE, mu_run_pack, 0},
    {"Placeholder", "", "output:dtype", DTYPE " shape:shape=?", 0, mu_run_unfed, 0},
    {"PlaceholderV2", "", "output:dtype", DTYPE " shape:shape", 0, mu_run_unfed, 0},
    {"PlaceholderWithDefault", "input:dtype", "output:dtype", DTYPE " shape:shape", 0, mu_run_identity, 0},
    BINARY("Pow", NUMBERS, 0, MU_POW),
    REDUCTION("Prod", MU_PROD),
    {"QueueCloseV2", "handle:r", "", "cancel_pending_enqueues:bool=0", STATE, mu_run_queue_close, 0},
    {"QueueDequeueV2", "handle:r", "components:*component_types",
     "component_types:list(type){fdilbs}>1 timeout_ms:int=-1", STATE, mu_run_dequeue, 0},
    {"QueueEnqueueV2", "handle:r components:*Tcomponents", "", "Tcomponents:list(type){fdilbs}>1 timeout_ms:int=-1",
     STATE, mu_run_enqueue, 0},
    {"QueueIsClosedV2", "handle:r", "is_closed:b", "", STATE, mu_run_queue_is_closed, 0},
    {"QueueSizeV2", "handle:r", "size:i", "", STATE, mu_run_queue_size, 0},
    {"RandomStandardNormal", "shape:T", "output:dtype", RANDOM, STATE | PURE, mu_run_random, MU_NORMAL},
    {"RandomUniform", "shape:T", "output:dtype", RANDOM, STATE | PURE, mu_run_random, MU_UNIFORM},
    {"Rank", "input:T", "output:i", ANY, 0, mu_run_rank, 0},
    {"ReadVariableOp", "resource:r", "value:dtype", DTYPE, STATE, mu_run_var_read, 0},
    BINARY("RealDiv", NUMBERS, 0, MU_DIV),
    UNARY("Reciprocal", REALS, MU_RECIPROCAL),
    UNARY("Relu", NUMBERS, MU_RELU),
    {"Reshape", "tensor:T shape:Tshape", "output:T", ANY " Tshape:type{il}=i", 0, mu_run_reshape, 0},
    {"ResourceApplyGradientDescent", "var:r alpha:T delta:T", "", REALS LOCKED, CHANGES, mu_run_change, MU_DESCEND},
    UNARY("Rsqrt", REALS, MU_RSQRT),
    {"Select", "condition:b t:T e:T", "output:T", ANY, PURE, mu_run_select, 0},
    {"Shape", "input:T", "output:out_type", ANY " out_type:type{il}=i", 0, mu_run_shape, 0},
    UNARY("Sigmoid", REALS, MU_SIGMOID),
    UNARY("Sign", NUMBERS, MU_SIGN),
    {"Size", "input:T", "output:out_type", ANY " out_type:type{il}=i", 0, mu_run_size, 0},
    UNARY("Sqrt", REALS, MU_SQRT),
    UNARY("Square", NUMBERS, MU_SQUARE),
    BINARY("SquaredDifference", NUMBERS, MU_OP_COMMUTATIVE, MU_SQDIFF),
    {"Squeeze", "input:T", "output:T", ANY " squeeze_dims:list(int)=", 0, mu_run_squeeze, 0},
    {"StopGradient", "input:T", "output:T", ANY, 0, mu_run_identity, 0},
    {"StridedSlice", "input:T begin:Index end:Index strides:Index", "output:T",
     ANY
     " Index:type{il} begin_mask:int=0 end_mask:int=0 ellipsis_mask:int=0 new_axis_mask:int=0 shrink_axis_mask:int=0",
     PURE, mu_run_slice, 0},
    BINARY("Sub", NUMBERS, 0, MU_SUB),
    REDUCTION("Sum", MU_SUM),
    UNARY("Tanh", REALS, MU_TANH),
    {"Tile", "input:T multiples:Tmultiples", "output:T", ANY " Tmultiples:type{il}=i", PURE, mu_run_tile, 0},
    {"Transpose", "x:T perm:Tperm", "y:T", ANY " Tperm:type{il}=i", PURE, mu_run_transpose, 0},
    {"TruncatedNormal", "shape:T", "output:dtype", RANDOM, STATE | PURE, mu_run_random, MU_TRUNCATED},
    {"VarHandleOp", "", "resource:r",
     PLACED " debug_name:string= " DTYPE " shape:shape allowed_devices:list(string)=", STATE, mu_run_var_handle, 0},
    {"VarIsInitializedOp", "resource:r", "is_initialized:b", "", STATE, mu_run_var_is_initialized, 0},
    {"Variable", "", "ref:&dtype", "shape:shape " DTYPE " " PLACED, STATE, mu_run_variable, 0},
    {"VariableV2", "", "ref:&dtype", "shape:shape " DTYPE " " PLACED, STATE, mu_run_variable, 0},
    UNARY("ZerosLike", "T:type{fdilbs}", MU_ZEROS),
    {"_HostRecv", "", "tensor:tensor_type", "tensor_type:type{fdilbs} " TRANSFER, STATE, mu_run_recv, 0},
    {"_HostSend", "tensor:T", "", ANY " " TRANSFER, STATE, mu_run_send, 0},
    {"_Recv", "", "tensor:tensor_type", "tensor_type:type{fdilbs} " TRANSFER, STATE, mu_run_recv, 0},
    {"_Send", "tensor:T", "", ANY " " TRANSFER, STATE, mu_run_send, 0},
    {NULL, NULL, NULL, NULL, 0, NULL, 0},
};
const unsigned mu_num_kops = sizeof mu_kops / sizeof mu_kops[0] - 1;

int mu_kop_find(const char *name)
{
    int low = 0, high = (int)mu_num_kops - 1;

    while (low <= high) {
        int at = (low + high) / 2, way = strcmp(name, mu_kops[at].name);

        if (way == 0)
            return at;
        if (way < 0)
            high = at - 1;
        else
            low = at + 1;
    }
    return -1;
}

/* ---- what a call costs ------------------------------------------------------------------------------------------- */

static size_t size_times(size_t a, size_t b)
{
    return __builtin_mul_overflow(a, b, &a) ? SIZE_MAX : a;
}

/* The product of a tensor of whole numbers: what a shape holds. */
static size_t shape_product(const struct mu_tensor *tensor)
{
    size_t n = 1;

    for (size_t k = 0; k < tensor->count; k++) {
        int64_t dim = tensor->dtype == MU_INT32 ? tensor->i[k] : tensor->l[k];

        n = size_times(n, dim > 0 ? (size_t)dim : 0);
    }
    return n;
}

size_t mu_kernel_cost(const struct mu_kernel_call *call)
{
    mu_kernel_run *run = call->node->op->run;
    const struct mu_tensor *a = call->in[0].tensor, *b = call->node->num_inputs > 1 ? call->in[1].tensor : NULL;
    size_t cost = 0;

    if (run == mu_run_fill || run == mu_run_random)
        return shape_product(a);
    if (run == mu_run_tile)
        return size_times(a->count, shape_product(b));
    if (run == mu_run_matmul) /* m k times n */
        return size_times(a->count,
                          b->shape.rank == 2 ? (size_t)b->shape.dim[!mu_attr_bool(call->node, "transpose_b")] : 0);
    if (run == mu_run_gather)
        return a->shape.rank > 0 && a->shape.dim[0] > 0 ? size_times(b->count, a->count / (size_t)a->shape.dim[0]) : 0;
    if (run == mu_run_binary && !mu_dims_is_same(&a->shape, &b->shape))
        return size_times(a->count, b->count);
    for (uint32_t k = 0; k < call->node->num_inputs; k++)
        cost += call->in[k].tensor ? call->in[k].tensor->count : 0;
    return cost;
}
