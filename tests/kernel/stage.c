/*
 * tests/kernel/stage.c: graphs and tensors as short text, and one step of them.
 */
#include "stage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stage stage;

int stage_open(void)
{
    stage = (struct stage){.memory = {.most = 1u << 28}};
    stage.shared = mu_resources_new();
    stage.own = mu_resources_new();
    return 0;
}

int stage_close(void)
{
    mu_resources_free(stage.shared);
    mu_resources_free(stage.own);
    assert_int_equal(stage.memory.held, 0);
    return 0;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static Mu__Graph__DataType letter(char c)
{
    static const char letters[] = "?fdi???s?lb";
    const char *at = strchr(letters, c);

    assert_non_null(at);
    return (Mu__Graph__DataType)(c == 'r' ? 20 : at - letters);
}

static void *fresh(size_t size)
{
    void *at = calloc(1, size);

    assert_non_null(at);
    return at;
}

/* "2,-1" up to any of `ends`. */
static Mu__Graph__TensorShapeProto *shape_text(const char **at, const char *ends)
{
    Mu__Graph__TensorShapeProto *shape = fresh(sizeof *shape);

    mu__graph__tensor_shape_proto__init(shape);
    shape->dim = fresh(16 * sizeof *shape->dim);
    while (!strchr(ends, **at)) {
        Mu__Graph__Dim *dim = fresh(sizeof *dim);
        char *end;

        mu__graph__dim__init(dim);
        dim->has_size = true;
        dim->size = strtoll(*at, &end, 10);
        shape->dim[shape->n_dim++] = dim;
        *at = end + (*end == ',');
    }
    return shape;
}

static ProtobufCBinaryData bytes_text(const char *at, size_t len)
{
    ProtobufCBinaryData bytes = {len, fresh(len + 1)};

    memcpy(bytes.data, at, len);
    return bytes;
}

static Mu__Graph__TensorProto *proto_text(const char *at)
{
    Mu__Graph__TensorProto *t = fresh(sizeof *t);
    size_t room;

    mu__graph__tensor_proto__init(t);
    t->has_dtype = true;
    t->dtype = letter(*at);
    at += 2;
    t->tensor_shape = shape_text(&at, "]");
    assert_true(*at == ']');
    at++;
    room = strlen(at) + 1;
    t->float_val = fresh(room * sizeof *t->float_val);
    t->double_val = fresh(room * sizeof *t->double_val);
    t->int_val = fresh(room * sizeof *t->int_val);
    t->int64_val = fresh(room * sizeof *t->int64_val);
    t->bool_val = fresh(room * sizeof *t->bool_val);
    t->string_val = fresh(room * sizeof *t->string_val);
    for (at += *at == ':'; *at;) {
        size_t len = strcspn(at, ",");

        if (t->dtype == 1)
            t->float_val[t->n_float_val++] = strtof(at, NULL);
        else if (t->dtype == 2)
            t->double_val[t->n_double_val++] = strtod(at, NULL);
        else if (t->dtype == 3)
            t->int_val[t->n_int_val++] = (int32_t)strtol(at, NULL, 10);
        else if (t->dtype == 9)
            t->int64_val[t->n_int64_val++] = strtoll(at, NULL, 10);
        else if (t->dtype == 10)
            t->bool_val[t->n_bool_val++] = *at == '1';
        else
            t->string_val[t->n_string_val++] = bytes_text(at, len);
        at += len + (at[len] == ',');
    }
    return t;
}

struct mu_tensor *tensor_text(const char *text)
{
    Mu__Graph__TensorProto *proto = proto_text(text);
    struct mu_kernel_error error = {.status = MUSTER_OK};
    size_t spare = MU_TENSOR_SPARE;
    struct mu_tensor *tensor = mu_tensor_decode(&stage.memory, proto, &spare, &error);

    assert_string_equal(error.text, "");
    mu__graph__tensor_proto__free_unpacked(proto, NULL);
    return tensor;
}

static void list_text(Mu__Graph__ListValue *list, char kind, const char *at)
{
    list->type = fresh((strlen(at) + 1) * sizeof *list->type);
    list->shape = fresh((strlen(at) + 1) * sizeof *list->shape);
    list->i = fresh((strlen(at) + 1) * sizeof *list->i);
    while (*at && kind == 'T')
        list->type[list->n_type++] = letter(*at++);
    while (*at && kind == 'H') {
        list->shape[list->n_shape++] = shape_text(&at, ";");
        at += *at == ';';
    }
    while (*at && kind == 'I') {
        char *end;

        list->i[list->n_i++] = strtoll(at, &end, 10);
        at = end + (*end == ',');
    }
}

static void attr_add(Mu__Graph__NodeDef *node, const char *key, const char *value)
{
    Mu__Graph__AttrEntry *entry = fresh(sizeof *entry);
    Mu__Graph__AttrValue *v = fresh(sizeof *v);

    mu__graph__attr_entry__init(entry);
    mu__graph__attr_value__init(v);
    entry->key = strdup(key);
    entry->value = v;
    node->attr[node->n_attr++] = entry;
    if (value[1] == '[') {
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_TENSOR;
        v->tensor = proto_text(value);
        return;
    }
    assert_true(value[1] == ':');
    switch (value[0]) {
    case 't':
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_TYPE;
        v->type = letter(value[2]);
        return;
    case 'i':
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_I;
        v->i = strtoll(value + 2, NULL, 10);
        return;
    case 'b':
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_B;
        v->b = value[2] == '1';
        return;
    case 's':
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_S;
        v->s = bytes_text(value + 2, strlen(value + 2));
        return;
    case 'h':
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_SHAPE;
        value += 2;
        v->shape = shape_text(&value, "");
        return;
    default:
        v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_LIST;
        v->list = fresh(sizeof *v->list);
        mu__graph__list_value__init(v->list);
        list_text(v->list, value[0], value + 2);
    }
}

static Mu__Graph__NodeDef *node_text(char *line)
{
    Mu__Graph__NodeDef *node = fresh(sizeof *node);
    char *name = strsep(&line, " "), *op = strsep(&line, " "), *inputs = strsep(&line, " "), *word;

    mu__graph__node_def__init(node);
    node->attr = fresh(16 * sizeof *node->attr);
    node->input = fresh(64 * sizeof *node->input);
    node->name = strdup(name);
    if (strcmp(op, "=") == 0) {
        char type[4] = {'t', ':', inputs[0], 0};

        node->op = strdup("Const");
        attr_add(node, "dtype", type);
        attr_add(node, "value", inputs);
        return node;
    }
    node->op = strdup(op);
    while (inputs && strcmp(inputs, "-") != 0)
        node->input[node->n_input++] = strdup(strsep(&inputs, ","));
    while ((word = strsep(&line, " "))) {
        char *key = strsep(&word, "=");

        attr_add(node, key, word);
    }
    return node;
}

Mu__Graph__GraphDef *graph_text(const char *text)
{
    Mu__Graph__GraphDef *graph = fresh(sizeof *graph);
    char *copy = strdup(text), *rest = copy, *line;

    mu__graph__graph_def__init(graph);
    graph->node = fresh(128 * sizeof(Mu__Graph__NodeDef *));
    while ((line = strsep(&rest, "\n")))
        if (*line)
            graph->node[graph->n_node++] = node_text(line);
    free(copy);
    return graph;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static struct mu_kernel_graph *graph_of(Mu__Graph__GraphDef *def, struct mu_kernel_error *error)
{
    struct mu_kernel_home home = {&stage.memory, stage.shared, stage.own, "local"};
    size_t len = mu__graph__graph_def__get_packed_size(def);
    uint8_t *bytes = malloc(len + 1);
    struct mu_kernel_graph *graph;

    mu__graph__graph_def__pack(def, bytes);
    graph = mu_kernel_graph_new(&home, bytes, len, error);
    free(bytes);
    mu__graph__graph_def__free_unpacked(def, NULL);
    return graph;
}

/* The type letter of a fetch stands before it: "f a,b b:1". */
struct mu_kernel_graph *graph_take(const char *text, const char *fetch, struct mu_kernel_error *error)
{
    char *whole, *names = strdup(fetch), *rest = names, *name;
    struct mu_kernel_graph *graph;
    size_t size, at;
    unsigned k = 0;

    size = strlen(text) + 200 * (strlen(fetch) + 1);
    whole = malloc(size);
    at = (size_t)snprintf(whole, size, "%s", text);
    for (; (name = strsep(&rest, ",")) && *name; k++)
        at += (size_t)snprintf(whole + at, size - at,
                               "\nsend%u _Send %s T=t:%c tensor_name=s:%u send_device=s:D send_device_incarnation=i:1 "
                               "recv_device=s:D",
                               k, name + 2, name[0], k);
    graph = graph_of(graph_text(whole), error);
    free(whole);
    free(names);
    return graph;
}

static void on_wake(void *arg)
{
    (void)arg;
    stage.woken++;
}

void step_begin(struct step *s, const char *text, const char *fetch)
{
    struct mu_kernel_error error = {.status = MUSTER_OK};
    struct mu_kernel_step_options options = {.wake = on_wake};

    s->graph = graph_take(text, fetch, &error);
    assert_string_equal(error.text, "");
    s->rendezvous = mu_rendezvous_new();
    options.graph = s->graph;
    options.rendezvous = s->rendezvous;
    s->step = mu_kernel_step_new(&options, &error);
    assert_non_null(s->step);
    step_go(s);
}

void step_go(struct step *s)
{
    do {
        s->is = mu_kernel_step_run(s->step, 0);
    } while (s->is == MU_STEP_MORE);
}

void step_end(struct step *s)
{
    mu_kernel_step_free(s->step);
    mu_rendezvous_drop(s->rendezvous);
    mu_kernel_graph_drop(s->graph);
}

static void tensor_is(const struct mu_tensor *is, const struct mu_tensor *wanted)
{
    char a[192], b[192];

    assert_string_equal(mu_dtype_name(is->dtype), mu_dtype_name(wanted->dtype));
    assert_string_equal(mu_dims_text(&is->shape, a), mu_dims_text(&wanted->shape, b));
    for (size_t k = 0; k < is->count; k++)
        if (is->dtype == MU_FLOAT || is->dtype == MU_DOUBLE) {
            double x = is->dtype == MU_FLOAT ? (double)is->f[k] : is->d[k];
            double y = is->dtype == MU_FLOAT ? (double)wanted->f[k] : wanted->d[k];

            if (!(x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= 1e-5 * fabs(y)))
                fail_msg("element %zu is %.9g, not %.9g", k, x, y);
        } else if (is->dtype == MU_STRING) {
            assert_int_equal(is->s[k].len, wanted->s[k].len);
            assert_memory_equal(is->s[k].bytes, wanted->s[k].bytes, is->s[k].len);
        } else {
            assert_memory_equal((char *)is->data + k * mu_dtype_size(is->dtype),
                                (char *)wanted->data + k * mu_dtype_size(is->dtype), mu_dtype_size(is->dtype));
        }
}

void step_gave(struct step *s, unsigned number, const char *tensor)
{
    struct mu_tensor *wanted = tensor_text(tensor), *is;
    char key[64];

    assert_string_equal(mu_kernel_step_error(s->step)->text, "");
    snprintf(key, sizeof key, "D;%016x;D;%u;0:0", 1, number);
    is = mu_rendezvous_take(s->rendezvous, key);
    assert_non_null(is);
    tensor_is(is, wanted);
    mu_tensor_drop(is);
    mu_tensor_drop(wanted);
}

void step_failed(struct step *s, enum muster_status status, const char *words)
{
    const struct mu_kernel_error *error = mu_kernel_step_error(s->step);

    if (!strstr(error->text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, error->text);
    assert_int_equal(error->status, status);
    assert_int_equal(s->is, MU_STEP_DONE);
}

void expect(const char *text, const char *fetch, const char *tensor)
{
    struct step s;

    step_begin(&s, text, fetch);
    step_gave(&s, 0, tensor);
    assert_int_equal(s.is, MU_STEP_DONE);
    step_end(&s);
}

void expect_error(const char *text, const char *fetch, enum muster_status status, const char *words)
{
    struct step s;

    step_begin(&s, text, fetch);
    step_failed(&s, status, words);
    step_end(&s);
}

void expect_refused(const char *text, enum muster_status status, const char *words)
{
    struct mu_kernel_error error = {.status = MUSTER_OK};
    struct mu_kernel_graph *graph = graph_of(graph_text(text), &error);

    assert_null(graph);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, error.text);
    assert_int_equal(error.status, status);
}
