/*
 * tests/kernel/kernels_test.c: every kernel against values. A row: the graph without its constants' names, and what z
 * is.
 */
#include "stage.h"

#include <stdio.h>
#include <string.h>

/* x (and y) into OP: "OP attrs", then z's type and value. */
static void one(const char *op, const char *attrs, const char *x, const char *z)
{
    char text[1024], fetch[8] = {z[0], ' ', 'z', 0};

    snprintf(text, sizeof text, "x = %s\nz %s x T=t:%c%s%s", x, op, x[0], *attrs ? " " : "", attrs);
    expect(text, fetch, z);
}

static void two(const char *op, const char *attrs, const char *x, const char *y, const char *z)
{
    char text[1024], fetch[8] = {z[0], ' ', 'z', 0};

    snprintf(text, sizeof text, "x = %s\ny = %s\nz %s x,y%s%s", x, y, op, *attrs ? " " : "", attrs);
    expect(text, fetch, z);
}

static void fails(const char *op, const char *attrs, const char *x, const char *y, const char *words)
{
    char text[1024];

    snprintf(text, sizeof text, "x = %s\ny = %s\nz %s x,y %s", x, y, op, attrs);
    expect_error(text, "", MUSTER_INVALID_ARGUMENT, words);
}

STAGE_TEST(numbers_by_two)
{
    static const struct {
        const char *op, *f, *i;
    } rows[] = {
        {"AddV2", "f[4]:9,-5,10.5,2", "i[4]:9,-5,10,2"},
        {"Add", "f[4]:9,-5,10.5,2", "i[4]:9,-5,10,2"},
        {"Sub", "f[4]:5,-9,4.5,-6", "i[4]:5,-9,4,-6"},
        {"Mul", "f[4]:14,-14,22.5,-8", "i[4]:14,-14,21,-8"},
        {"RealDiv", "f[4]:3.5,-3.5,2.5,-0.5", "i[4]:3,-3,2,0"},
        {"Div", "f[4]:3.5,-3.5,2.5,-0.5", "i[4]:3,-3,2,0"},
        {"FloorDiv", "f[4]:3,-4,2,-1", "i[4]:3,-4,2,-1"},
        {"FloorMod", "f[4]:1,1,1.5,2", "i[4]:1,1,1,2"},
        {"Maximum", "f[4]:7,2,7.5,4", "i[4]:7,2,7,4"},
        {"Minimum", "f[4]:2,-7,3,-2", "i[4]:2,-7,3,-2"},
        {"SquaredDifference", "f[4]:25,81,20.25,36", "i[4]:25,81,16,36"},
        {"Pow", "f[4]:49,49,421.875,16", "i[4]:49,49,343,16"},
    };

    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        char d[64], l[64];

        two(rows[k].op, "T=t:f", "f[4]:7,-7,7.5,-2", "f[4]:2,2,3,4", rows[k].f);
        two(rows[k].op, "T=t:i", "i[4]:7,-7,7,-2", "i[4]:2,2,3,4", rows[k].i);
        snprintf(d, sizeof d, "d%s", rows[k].f + 1);
        snprintf(l, sizeof l, "l%s", rows[k].i + 1);
        two(rows[k].op, "T=t:d", "d[4]:7,-7,7.5,-2", "d[4]:2,2,3,4", d);
        two(rows[k].op, "T=t:l", "l[4]:7,-7,7,-2", "l[4]:2,2,3,4", l);
    }
    two("Add", "T=t:s", "s[2]:a,b", "s[]:-c", "s[2]:a-c,b-c");
    two("Mul", "T=t:i", "i[]:2147483647", "i[]:2", "i[]:-2");
    two("FloorDiv", "T=t:i", "i[]:-2147483648", "i[]:-1", "i[]:-2147483648");
    two("FloorMod", "T=t:l", "l[]:-9223372036854775808", "l[]:-1", "l[]:0");
    two("RealDiv", "T=t:f", "f[2]:1,-1", "f[]:0", "f[2]:inf,-inf");
    two("Maximum", "T=t:f", "f[2]:nan,1", "f[2]:1,nan", "f[2]:nan,nan");
    two("Pow", "T=t:i", "i[4]:2,1,-1,5", "i[4]:-1,-3,-3,0", "i[4]:0,1,-1,1");
    fails("FloorMod", "T=t:l", "l[2]:1,2", "l[]:0", "Integer division by zero\n\t [[{{node z}}]]");
    fails("RealDiv", "T=t:i", "i[]:1", "i[]:0", "Integer division by zero");
}

STAGE_TEST(comparisons)
{
    two("Equal", "T=t:f", "f[3]:1,2,nan", "f[3]:1,3,nan", "b[3]:1,0,0");
    two("NotEqual", "T=t:i", "i[2]:1,2", "i[]:1", "b[2]:0,1");
    two("Equal", "T=t:s", "s[3]:a,bb,b", "s[]:bb", "b[3]:0,1,0");
    two("Equal", "T=t:b", "b[2]:0,1", "b[2]:1,1", "b[2]:0,1");
    two("Less", "T=t:l", "l[3]:1,2,3", "l[]:2", "b[3]:1,0,0");
    two("LessEqual", "T=t:d", "d[3]:1,2,3", "d[]:2", "b[3]:1,1,0");
    two("Greater", "T=t:f", "f[3]:1,2,3", "f[]:2", "b[3]:0,0,1");
    two("GreaterEqual", "T=t:i", "i[3]:1,2,3", "i[]:2", "b[3]:0,1,1");
    two("LogicalAnd", "", "b[4]:0,0,1,1", "b[4]:0,1,0,1", "b[4]:0,0,0,1");
    two("LogicalOr", "", "b[4]:0,0,1,1", "b[4]:0,1,0,1", "b[4]:0,1,1,1");
    expect("x = b[2]:0,1\nz LogicalNot x", "b z", "b[2]:1,0");
}

STAGE_TEST(shapes_are_broadcast)
{
    two("AddV2", "T=t:i", "i[2,3]:1,2,3,4,5,6", "i[3]:10,20,30", "i[2,3]:11,22,33,14,25,36");
    two("AddV2", "T=t:i", "i[2,1]:1,2", "i[1,3]:10,20,30", "i[2,3]:11,21,31,12,22,32");
    two("Sub", "T=t:i", "i[]:1", "i[2,2]:1,2,3,4", "i[2,2]:0,-1,-2,-3");
    two("Mul", "T=t:i", "i[2,1,2]:1,2,3,4", "i[3,1]:1,10,100", "i[2,3,2]:1,2,10,20,100,200,3,4,30,40,300,400");
    two("AddV2", "T=t:f", "f[0,3]", "f[3]:1", "f[0,3]");
    two("AddV2", "T=t:f", "f[1,3]:1,2,3", "f[0,1]", "f[0,3]");
    two("AddV2", "T=t:i", "i[1]:1", "i[1,1]:2", "i[1,1]:3");
    fails("AddV2", "T=t:f", "f[2]:1", "f[3]:1", "Incompatible shapes: [2] vs. [3]");
}

STAGE_TEST(numbers_by_one)
{
    static const struct {
        const char *op, *x, *z;
    } rows[] = {
        {"Neg", "f[2]:1,-2", "f[2]:-1,2"},          {"Neg", "i[1]:-2147483648", "i[1]:-2147483648"},
        {"Square", "d[2]:3,-2", "d[2]:9,4"},        {"Square", "l[1]:-3", "l[1]:9"},
        {"Sqrt", "f[2]:9,2", "f[2]:3,1.41421356"},  {"Rsqrt", "d[1]:4", "d[1]:0.5"},
        {"Exp", "f[2]:0,1", "f[2]:1,2.71828183"},   {"Log", "d[2]:1,10", "d[2]:0,2.302585093"},
        {"Abs", "i[2]:-3,3", "i[2]:3,3"},           {"Abs", "f[1]:-1.5", "f[1]:1.5"},
        {"Sign", "f[3]:-2,0,5", "f[3]:-1,0,1"},     {"Sign", "l[3]:-2,0,5", "l[3]:-1,0,1"},
        {"Tanh", "f[2]:0,1", "f[2]:0,0.761594156"}, {"Sigmoid", "d[2]:0,2", "d[2]:0.5,0.880797078"},
        {"Relu", "f[3]:-1,0,2", "f[3]:0,0,2"},      {"Relu", "i[2]:-1,2", "i[2]:0,2"},
        {"Reciprocal", "f[1]:4", "f[1]:0.25"},      {"Floor", "f[2]:-1.5,1.5", "f[2]:-2,1"},
        {"ZerosLike", "s[1]:a", "s[1]:"},           {"ZerosLike", "f[2,1]:1,2", "f[2,1]:0"},
        {"OnesLike", "f[2]:nan,2", "f[2]:1"},       {"OnesLike", "b[2]:0,1", "b[2]:1"},
        {"OnesLike", "l[2]:0,1", "l[2]:1"},         {"Identity", "s[2]:a,b", "s[2]:a,b"},
        {"StopGradient", "f[1]:1", "f[1]:1"},
    };

    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        one(rows[k].op, "", rows[k].x, rows[k].z);
    expect("x = i[2,2]:1,2,3,4\ny = i[2,2]:10,20,30,40\nz AddN x,y,x T=t:i N=i:3", "i z", "i[2,2]:12,24,36,48");
    expect_error("x = i[2]:1\ny = i[1]:1\nz AddN x,y T=t:i N=i:2", "", MUSTER_INVALID_ARGUMENT, "same size and shape");
}

STAGE_TEST(casts)
{
    expect("x = f[4]:1.9,-1.9,1e20,nan\nz Cast x SrcT=t:f DstT=t:i", "i z", "i[4]:1,-1,-2147483648,-2147483648");
    expect("x = d[2]:1e300,-3\nz Cast x SrcT=t:d DstT=t:l", "l z", "l[2]:-9223372036854775808,-3");
    expect("x = l[2]:4294967297,0\nz Cast x SrcT=t:l DstT=t:i", "i z", "i[2]:1,0");
    expect("x = i[2]:2,0\nz Cast x SrcT=t:i DstT=t:b", "b z", "b[2]:1,0");
    expect("x = b[2]:1,0\nz Cast x SrcT=t:b DstT=t:d", "d z", "d[2]:1,0");
    expect("x = i[1]:7\nz Cast x SrcT=t:i DstT=t:f", "f z", "f[1]:7");
}

STAGE_TEST(sums)
{
    static const char x[] = "f[2,3]:1,2,3,4,5,6";

    two("Sum", "T=t:f", x, "i[1]:0", "f[3]:5,7,9");
    two("Sum", "T=t:f", x, "i[1]:-1", "f[2]:6,15");
    two("Sum", "T=t:f", x, "i[2]:0,1", "f[]:21");
    two("Sum", "T=t:f", x, "i[0]", x);
    two("Sum", "T=t:f keep_dims=b:1", x, "i[1]:1", "f[2,1]:6,15");
    two("Sum", "T=t:f Tidx=t:l", x, "l[]:0", "f[3]:5,7,9");
    two("Mean", "T=t:f", x, "i[2]:0,1", "f[]:3.5");
    two("Mean", "T=t:i", "i[2]:1,4", "i[]:0", "i[]:2");
    two("Mean", "T=t:f", "f[0]", "i[]:0", "f[]:nan");
    two("Prod", "T=t:i", "i[2,2]:1,2,3,4", "i[1]:0", "i[2]:3,8");
    two("Prod", "T=t:i", "i[0]", "i[1]:0", "i[]:1");
    two("Max", "T=t:d", "d[2,2]:1,-2,3,-4", "i[1]:1", "d[2]:1,3");
    two("Max", "T=t:f", "f[0]", "i[]:0", "f[]:-inf");
    two("Min", "T=t:l", "l[3]:5,-2,7", "i[]:0", "l[]:-2");
    two("All", "", "b[2,2]:1,1,1,0", "i[1]:1", "b[2]:1,0");
    two("Any", "", "b[2,2]:0,0,1,0", "i[1]:1", "b[2]:0,1");
    two("Sum", "T=t:l", "l[2,2,2]:1,2,3,4,5,6,7,8", "i[2]:0,2", "l[2]:14,22");
    fails("Sum", "T=t:f", x, "i[1]:2", "Invalid reduction dimension (2 for input with 2 dimension(s)");
    fails("Sum", "T=t:f", x, "i[2]:0,-2", "duplicate dimension");
}

STAGE_TEST(products)
{
    static const char *const types = "fdil";

    for (const char *t = types; *t; t++) {
        char a[64], b[64], at[64], bt[64], z[64], attrs[64];

        snprintf(a, sizeof a, "%c[2,3]:1,2,3,4,5,6", *t);
        snprintf(b, sizeof b, "%c[3,2]:7,8,9,10,11,12", *t);
        snprintf(at, sizeof at, "%c[3,2]:1,4,2,5,3,6", *t);
        snprintf(bt, sizeof bt, "%c[2,3]:7,9,11,8,10,12", *t);
        snprintf(z, sizeof z, "%c[2,2]:58,64,139,154", *t);
        snprintf(attrs, sizeof attrs, "T=t:%c", *t);
        two("MatMul", attrs, a, b, z);
        snprintf(attrs, sizeof attrs, "T=t:%c transpose_a=b:1", *t);
        two("MatMul", attrs, at, b, z);
        snprintf(attrs, sizeof attrs, "T=t:%c transpose_b=b:1", *t);
        two("MatMul", attrs, a, bt, z);
        snprintf(attrs, sizeof attrs, "T=t:%c transpose_a=b:1 transpose_b=b:1", *t);
        two("MatMul", attrs, at, bt, z);
    }
    two("MatMul", "T=t:f", "f[2,0]", "f[0,2]", "f[2,2]:0");
    two("MatMul", "T=t:f", "f[0,2]", "f[2,2]:1", "f[0,2]");
    fails("MatMul", "T=t:f", "f[2,3]:1", "f[2,3]:1", "Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3]");
    fails("MatMul", "T=t:f", "f[3]:1", "f[3,1]:1", "different ndims");
}

STAGE_TEST(shapes)
{
    one("Shape", "", "f[2,3]:1", "i[2]:2,3");
    one("Shape", "out_type=t:l", "s[]:a", "l[0]");
    one("Size", "", "f[2,3]:1", "i[]:6");
    one("Rank", "", "f[2,3]:1", "i[]:2");
    two("Reshape", "T=t:i", "i[6]:1,2,3,4,5,6", "i[2]:2,-1", "i[2,3]:1,2,3,4,5,6");
    two("Reshape", "T=t:s Tshape=t:l", "s[2,1]:a,b", "l[1]:2", "s[2]:a,b");
    two("Reshape", "T=t:i", "i[1]:5", "i[0]", "i[]:5");
    two("Reshape", "T=t:f", "f[0,2]", "i[2]:0,7", "f[0,7]");
    fails("Reshape", "T=t:i", "i[6]:1", "i[1]:5", "with 6 values, but the requested shape has 5");
    fails("Reshape", "T=t:i", "i[6]:1", "i[2]:-1,4", "requires a multiple of 4");
    fails("Reshape", "T=t:i", "i[6]:1", "i[2]:-1,-1", "Only one input size may be -1");
    fails("Reshape", "T=t:i Tshape=t:l", "i[6]:1", "l[3]:4611686018427387904,4,1", "too many elements");
    two("ExpandDims", "T=t:i", "i[2]:1,2", "i[]:-1", "i[2,1]:1,2");
    two("ExpandDims", "T=t:i", "i[2]:1,2", "i[]:0", "i[1,2]:1,2");
    fails("ExpandDims", "T=t:i", "i[2]:1", "i[]:3", "Tried to expand dim index 3");
    one("Squeeze", "", "i[1,2,1]:1,2", "i[2]:1,2");
    one("Squeeze", "squeeze_dims=I:-1", "i[1,2,1]:1,2", "i[1,2]:1,2");
    two("Fill", "T=t:f", "i[2]:2,3", "f[]:1.5", "f[2,3]:1.5");
    two("Fill", "T=t:s", "i[1]:2", "s[]:ab", "s[2]:ab,ab");
    fails("Fill", "T=t:f", "i[1]:-2", "f[]:1", "too many elements");
    fails("Fill", "T=t:f", "i[1]:2", "f[2]:1", "value must be a scalar");
}

STAGE_TEST(places)
{
    two("Tile", "T=t:i", "i[2,2]:1,2,3,4", "i[2]:2,1", "i[4,2]:1,2,3,4,1,2,3,4");
    two("Tile", "T=t:i", "i[2,2]:1,2,3,4", "i[2]:1,2", "i[2,4]:1,2,1,2,3,4,3,4");
    two("Tile", "T=t:i", "i[1,3]:1,2,3", "i[2]:2,2", "i[2,6]:1,2,3,1,2,3,1,2,3,1,2,3");
    two("Tile", "T=t:f", "f[2]:1", "i[1]:0", "f[0]");
    two("Tile", "T=t:f", "f[]:4", "i[0]", "f[]:4");
    fails("Tile", "T=t:f", "f[2]:1", "i[2]:1,1", "multiples argument");
    two("Transpose", "T=t:i", "i[2,3]:1,2,3,4,5,6", "i[2]:1,0", "i[3,2]:1,4,2,5,3,6");
    two("Transpose", "T=t:s", "s[1,2,1]:a,b", "i[3]:2,0,1", "s[1,1,2]:a,b");
    fails("Transpose", "T=t:i", "i[2,3]:1", "i[2]:1,1", "out of range in, perm");
    expect("p = i[3,2]:1,2,3,4,5,6\ni = i[2]:2,0\na = i[]:0\nz GatherV2 p,i,a Tparams=t:i Tindices=t:i Taxis=t:i",
           "i z", "i[2,2]:5,6,1,2");
    expect("p = i[2,3]:1,2,3,4,5,6\ni = l[]:-0\na = i[]:1\nz GatherV2 p,i,a Tparams=t:i Tindices=t:l Taxis=t:i", "i z",
           "i[2]:1,4");
    expect_error("p = i[2]:1\ni = i[1]:2\na = i[]:0\nz GatherV2 p,i,a Tparams=t:i Tindices=t:i Taxis=t:i", "",
                 MUSTER_INVALID_ARGUMENT, "indices[0] = 2 is not in [0, 2)");
    expect("x = i[2]:1,2\ny = i[2]:3,4\nz Pack x,y T=t:i N=i:2", "i z", "i[2,2]:1,2,3,4");
    expect("x = i[2]:1,2\ny = i[2]:3,4\nz Pack x,y T=t:i N=i:2 axis=i:1", "i z", "i[2,2]:1,3,2,4");
    expect("c = b[2]:1,0\nx = i[2]:1,2\ny = i[2]:3,4\nz Select c,x,y T=t:i", "i z", "i[2]:1,4");
    expect("c = b[2]:0,1\nx = i[2,2]:1,2,3,4\ny = i[2,2]:5,6,7,8\nz Select c,x,y T=t:i", "i z", "i[2,2]:5,6,3,4");
}

static void slice(const char *x, const char *begin, const char *end, const char *step, const char *masks, const char *z)
{
    char text[512], fetch[8] = {z[0], ' ', 'z', 0};

    snprintf(text, sizeof text, "x = %s\nb = %s\ne = %s\ns = %s\nz StridedSlice x,b,e,s T=t:%c Index=t:i%s%s", x, begin,
             end, step, x[0], *masks ? " " : "", masks);
    expect(text, fetch, z);
}

STAGE_TEST(slices)
{
    static const char x[] = "i[2,3]:1,2,3,4,5,6";

    slice("i[4]:1,2,3,4", "i[1]:1", "i[1]:3", "i[1]:1", "", "i[2]:2,3");
    slice("i[4]:1,2,3,4", "i[1]:0", "i[1]:1", "i[1]:1", "shrink_axis_mask=i:1", "i[]:1");
    slice("i[4]:1,2,3,4", "i[1]:-1", "i[1]:0", "i[1]:-1", "end_mask=i:1", "i[4]:4,3,2,1");
    slice("i[5]:1,2,3,4,5", "i[1]:0", "i[1]:0", "i[1]:2", "begin_mask=i:1 end_mask=i:1", "i[3]:1,3,5");
    slice("i[4]:1,2,3,4", "i[1]:9", "i[1]:3", "i[1]:1", "", "i[0]");
    slice(x, "i[2]:0,1", "i[2]:0,2", "i[2]:1,1", "begin_mask=i:1 end_mask=i:1", "i[2,1]:2,5");
    slice(x, "i[2]:0,-1", "i[2]:0,0", "i[2]:1,1", "ellipsis_mask=i:1 shrink_axis_mask=i:2", "i[2]:3,6");
    slice(x, "i[2]:0,1", "i[2]:0,2", "i[2]:1,1", "new_axis_mask=i:1 shrink_axis_mask=i:2", "i[1,3]:4,5,6");
    expect_error("x = i[2]:1\nb = i[1]:2\ne = i[1]:3\ns = i[1]:1\n"
                 "z StridedSlice x,b,e,s T=t:i Index=t:i shrink_axis_mask=i:1",
                 "", MUSTER_INVALID_ARGUMENT, "slice index 2 of dimension 0 out of bounds.");
}

STAGE_TEST(gradients_know_what_was_broadcast)
{
    static const struct {
        const char *s0, *s1, *r0, *r1;
    } rows[] = {
        {"i[2]:2,3", "i[1]:3", "i[0]", "i[1]:0"}, {"i[2]:2,1", "i[2]:1,3", "i[1]:1", "i[1]:0"},
        {"i[2]:2,3", "i[2]:2,3", "i[0]", "i[0]"}, {"i[0]", "i[2]:4,5", "i[2]:0,1", "i[0]"},
        {"i[2]:1,1", "i[2]:1,1", "i[0]", "i[0]"}, {"i[3]:5,1,7", "i[2]:1,7", "i[1]:1", "i[2]:0,1"},
    };

    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct step s;
        char text[256];

        snprintf(text, sizeof text, "x = %s\ny = %s\nz BroadcastGradientArgs x,y", rows[k].s0, rows[k].s1);
        step_begin(&s, text, "i z,i z:1");
        step_gave(&s, 0, rows[k].r0);
        step_gave(&s, 1, rows[k].r1);
        step_end(&s);
    }
    expect_error("x = i[1]:2\ny = i[1]:3\nz BroadcastGradientArgs x,y", "", MUSTER_INVALID_ARGUMENT,
                 "Incompatible shapes");
}

/* TensorFlow 2.21's numbers for these seeds. */
STAGE_TEST(random_numbers)
{
    struct step s;

    expect("n = i[1]:4\nz RandomUniform n dtype=t:f T=t:i seed=i:5 seed2=i:7", "f z",
           "f[4]:0.447463751,0.620756984,0.259069324,0.300779819");
    expect("n = i[1]:3\nz RandomUniform n dtype=t:d T=t:i seed=i:5 seed2=i:7", "d z",
           "d[3]:0.57971029844,0.07255541962,0.64438572076");
    expect("n = i[1]:4\nz RandomStandardNormal n dtype=t:f T=t:i seed=i:5 seed2=i:7", "f z",
           "f[4]:-0.872526765,-0.920334995,1.56061959,-0.51554364");
    /* Without seeds no two steps have the same; truncated ones are within two deviations. */
    step_begin(&s,
               "n = i[1]:1000\nz TruncatedNormal n dtype=t:f T=t:i\nq Abs z T=t:f\nt = i[]:0\nm Max q,t T=t:f\nl = "
               "f[]:2\nb Less m,l T=t:f",
               "b b");
    step_gave(&s, 0, "b[]:1");
    step_end(&s);
    expect("n = i[1]:4\nx RandomUniform n dtype=t:f T=t:i\ny RandomUniform n dtype=t:f T=t:i\nq Equal x,y T=t:f\nt = "
           "i[]:0\nz All q,t",
           "b z", "b[]:0");
    expect_error("n = i[1]:-1\nz RandomUniform n dtype=t:f T=t:i", "", MUSTER_INVALID_ARGUMENT, "must be >= 0");
}
