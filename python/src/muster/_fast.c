/*
 * muster/_fast.c: the short way from a store of torch.distributed to the job's keys; optional.
 *
 * ctypes takes ten times as long for a call as the call itself. What is here is the frequent case of each operation: a
 * key without odd characters, a value that fits, an answer that is there at once or comes while the library spins.
 * Whatever else comes (a key to be slept for, an error, a long value, keywords, a handle that is closed) is given to
 * the Python method of the same name, which knows everything: so nothing is decided here. The library is the one that
 * muster._lib has opened: its addresses are given. The interpreter's lock is held, for these calls end within a
 * microsecond; but not while a key is awaited, or another host may be asked for it: look_unlocked().
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#define NAME_MAX_BYTES  512 /* longer names go the long way */
#define VALUE_MAX_BYTES 4096
#define LINGER_NS       1000         /* long enough for the library to look before it has passed */
#define PREFIX          "tcpstore/:" /* as muster.torch.name_of() */

enum call { GET, MULTI_GET, CHECK, WAIT, SET, ADD, COMPARE_SET, NUM_CALLS };

static const char *const call_names[NUM_CALLS] = {"get", "multi_get", "check", "wait", "set", "add", "compare_set"};

struct calls {
    PyObject_HEAD PyObject *cell; /* keeps *handle where it is */
    void **handle;                /* NULL in it: this process has left the job */
    PyObject *slow[NUM_CALLS];    /* the Python methods */
    int (*try_get)(void *, const char *, size_t, void *, size_t, size_t *, uint64_t *);
    int (*kv_set)(void *, const char *, size_t, const void *, size_t, uint64_t *);
    int (*increment)(void *, const char *, size_t, int64_t, int64_t *);
    int (*compare_and_set)(void *, const char *, size_t, uint64_t, const void *, size_t, uint64_t *);
    int (*kv_get)(void *, const char *, size_t, uint64_t, void *, size_t, size_t *,
                  uint64_t *); /* NULL: the job has other hosts, as far as is known */
    uint64_t (*after_ns)(uint64_t);
};

struct name {
    size_t len;
    char bytes[NAME_MAX_BYTES];
};

struct value {
    size_t len;
    uint64_t version;
    char bytes[VALUE_MAX_BYTES];
};

/*
 * The calls that look for a key, or await one, without the interpreter's lock, which guards the list: who leaves the
 * job waits for them.
 */
struct lingerer {
    void *handle;
    struct lingerer *next;
};

static struct lingerer *lingerers;

static PyObject *go_slow(struct calls *self, enum call call, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (!self->slow[call]) {
        PyErr_Format(PyExc_AttributeError, "this store has no short %s()", call_names[call]);
        return NULL;
    }
    return PyObject_Vectorcall(self->slow[call], args, (size_t)count, names);
}

/* False: the key is none of the plain ones, or the job was left. */
static int name_it(const struct calls *self, PyObject *key, struct name *name)
{
    Py_ssize_t len;
    const char *text;

    if (!self->handle || !*self->handle || !PyUnicode_Check(key) || !PyUnicode_IS_ASCII(key))
        return 0;
    text = PyUnicode_AsUTF8AndSize(key, &len);
    if (!text || len > (Py_ssize_t)(sizeof name->bytes - sizeof PREFIX))
        return 0;
    memcpy(name->bytes, PREFIX, sizeof PREFIX - 1);
    for (Py_ssize_t i = 0; i < len; i++) {
        char c = text[i];

        if (c < ' ' || c == ':' || c == '%' || c == 127)
            return 0;
        name->bytes[sizeof PREFIX - 1 + (size_t)i] = c == '/' ? ':' : c;
    }
    name->len = sizeof PREFIX - 1 + (size_t)len;
    return 1;
}

static int try_it(const struct calls *self, void *handle, const struct name *name, struct value *value)
{
    return self->try_get(handle, name->bytes, name->len, value->bytes, sizeof value->bytes, &value->len,
                         &value->version);
}

/* Without the interpreter's lock: the key as it is; or, to linger, as it becomes before the library would sleep. */
static int look_unlocked(const struct calls *self, const struct name *name, struct value *value, int lingers)
{
    struct lingerer me = {*self->handle, lingerers}, **at = &lingerers;
    int status;

    lingerers = &me;
    Py_BEGIN_ALLOW_THREADS;
    status = lingers ? self->kv_get(me.handle, name->bytes, name->len, self->after_ns(LINGER_NS), value->bytes,
                                    sizeof value->bytes, &value->len, &value->version)
                     : try_it(self, me.handle, name, value);
    Py_END_ALLOW_THREADS;
    while (*at != &me)
        at = &(*at)->next;
    *at = me.next;
    return status == 0;
}

/* In a job of several hosts a miss asks another one. */
static int look(const struct calls *self, const struct name *name, struct value *value)
{
    return self->kv_get ? try_it(self, *self->handle, name, value) == 0 : look_unlocked(self, name, value, 0);
}

/*
 * The key is not there: what the library does before it sleeps, a few microseconds of spinning and some yields of the
 * processor, so that an answer on its way is met here. The deadline has passed when it would sleep. Not where a miss
 * asks another host: there no address is given.
 */
static int linger(const struct calls *self, const struct name *name, struct value *value)
{
    return self->kv_get && look_unlocked(self, name, value, 1);
}

/* The bytes of a str or bytes; NULL: it is something else, or long. */
static const char *bytes_of(PyObject *object, size_t *ret_len)
{
    Py_ssize_t len = 0;
    const char *bytes = NULL;

    if (PyBytes_Check(object)) {
        bytes = PyBytes_AS_STRING(object);
        len = PyBytes_GET_SIZE(object);
    } else if (PyUnicode_Check(object) && PyUnicode_IS_ASCII(object)) {
        bytes = PyUnicode_AsUTF8AndSize(object, &len);
    }
    *ret_len = (size_t)len;
    return len <= VALUE_MAX_BYTES ? bytes : NULL;
}

static PyObject *calls_get(struct calls *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    struct name name;
    struct value value;

    if (!names && count == 1 && name_it(self, args[0], &name) &&
        (look(self, &name, &value) || linger(self, &name, &value)))
        return PyBytes_FromStringAndSize(value.bytes, (Py_ssize_t)value.len);
    return go_slow(self, GET, args, count, names);
}

/* Is each key of a list there? 0 also when that is not for us to say. The list may change meanwhile. */
static int all_there(const struct calls *self, PyObject *keys, int waits)
{
    struct name name;
    struct value value;

    if (!PyList_Check(keys))
        return 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); i++)
        if (!name_it(self, PyList_GET_ITEM(keys, i), &name) ||
            !(look(self, &name, &value) || (waits && linger(self, &name, &value))))
            return 0;
    return 1;
}

static PyObject *calls_multi_get(struct calls *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *keys = !names && count == 1 && PyList_Check(args[0]) ? args[0] : NULL, *found;
    Py_ssize_t len = keys ? PyList_GET_SIZE(keys) : 0, i;
    struct name name;
    struct value value;

    if (!keys)
        return go_slow(self, MULTI_GET, args, count, names);
    found = PyList_New(len);
    for (i = 0; found && i < len && i < PyList_GET_SIZE(keys); i++) { /* others may change it */
        PyObject *bytes = NULL;

        if (name_it(self, PyList_GET_ITEM(keys, i), &name) && look(self, &name, &value))
            bytes = PyBytes_FromStringAndSize(value.bytes, (Py_ssize_t)value.len);
        if (!bytes)
            break;
        PyList_SET_ITEM(found, i, bytes);
    }
    if (found && i == len)
        return found;
    Py_XDECREF(found);
    return PyErr_Occurred() ? NULL : go_slow(self, MULTI_GET, args, count, names);
}

static PyObject *calls_check(struct calls *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (!names && count == 1 && all_there(self, args[0], 0))
        Py_RETURN_TRUE;
    return go_slow(self, CHECK, args, count, names);
}

static PyObject *calls_wait(struct calls *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (!names && count >= 1 && count <= 2 && all_there(self, args[0], 1))
        Py_RETURN_NONE;
    return go_slow(self, WAIT, args, count, names);
}

static PyObject *calls_set(struct calls *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    struct name name;
    size_t len;
    const char *bytes;

    if (!names && count == 2 && (bytes = bytes_of(args[1], &len)) && name_it(self, args[0], &name) &&
        self->kv_set(*self->handle, name.bytes, name.len, bytes, len, NULL) == 0)
        Py_RETURN_NONE;
    return PyErr_Occurred() ? NULL : go_slow(self, SET, args, count, names);
}

static PyObject *calls_add(struct calls *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    struct name name;
    int64_t sum;
    int overflow = 1;
    long long by = !names && count == 2 && PyLong_Check(args[1]) ? PyLong_AsLongLongAndOverflow(args[1], &overflow) : 0;

    if (!overflow && name_it(self, args[0], &name) &&
        self->increment(*self->handle, name.bytes, name.len, by, &sum) == 0)
        return PyLong_FromLongLong(sum);
    return PyErr_Occurred() ? NULL : go_slow(self, ADD, args, count, names);
}

static PyObject *calls_compare_set(struct calls *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    struct name name;
    struct value value;
    size_t old_len, new_len;
    const char *old = !names && count == 3 ? bytes_of(args[1], &old_len) : NULL;
    const char *desired = old ? bytes_of(args[2], &new_len) : NULL;

    if (desired && name_it(self, args[0], &name) && look(self, &name, &value)) {
        if (value.len != old_len || memcmp(value.bytes, old, old_len) != 0)
            return PyBytes_FromStringAndSize(value.bytes, (Py_ssize_t)value.len);
        if (self->compare_and_set(*self->handle, name.bytes, name.len, value.version, desired, new_len, NULL) == 0)
            return PyBytes_FromStringAndSize(desired, (Py_ssize_t)new_len);
    }
    return PyErr_Occurred() ? NULL : go_slow(self, COMPARE_SET, args, count, names);
}

static int take_address(PyObject *addresses, const char *name, void *ret_function)
{
    PyObject *number = PyDict_GetItemString(addresses, name);
    void *address = number ? PyLong_AsVoidPtr(number) : NULL;

    if (!address) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "no address of %s() is given", name);
        return -1;
    }
    memcpy(ret_function, &address, sizeof address);
    return 0;
}

/* Calls(cell, address of its handle, {name: address of a C call}, {name: Python method}) */
static int calls_init(struct calls *self, PyObject *args, PyObject *keywords)
{
    PyObject *cell, *at, *addresses, *slow;

    if (keywords && PyDict_GET_SIZE(keywords) > 0) {
        PyErr_SetString(PyExc_TypeError, "Calls() takes no keywords");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OO!O!O!", &cell, &PyLong_Type, &at, &PyDict_Type, &addresses, &PyDict_Type, &slow))
        return -1;
    if (take_address(addresses, "try_get", &self->try_get) || take_address(addresses, "set", &self->kv_set) ||
        take_address(addresses, "increment", &self->increment) ||
        take_address(addresses, "compare_and_set", &self->compare_and_set))
        return -1;
    if (PyDict_GetItemString(addresses, "get") &&
        (take_address(addresses, "get", &self->kv_get) || take_address(addresses, "after_ns", &self->after_ns)))
        return -1;
    for (int i = 0; i < NUM_CALLS; i++) {
        Py_XINCREF(PyDict_GetItemString(slow, call_names[i]));
        Py_XSETREF(self->slow[i], PyDict_GetItemString(slow, call_names[i]));
    }
    Py_INCREF(cell);
    Py_XSETREF(self->cell, cell);
    self->handle = PyLong_AsVoidPtr(at);
    if (!self->handle && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the handle has no address");
    return self->handle ? 0 : -1;
}

static int calls_traverse(struct calls *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->cell);
    for (int i = 0; i < NUM_CALLS; i++)
        Py_VISIT(self->slow[i]);
    return 0;
}

/* The cell stays: a call may be under way when a collector breaks the circle. */
static int calls_clear(struct calls *self)
{
    for (int i = 0; i < NUM_CALLS; i++)
        Py_CLEAR(self->slow[i]);
    return 0;
}

static void calls_dealloc(struct calls *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    calls_clear(self);
    Py_CLEAR(self->cell);
    type->tp_free(self);
    Py_DECREF(type);
}

#define METHOD(name)                                                                                                   \
    {                                                                                                                  \
#name, (PyCFunction)(void (*)(void))calls_##name, METH_FASTCALL | METH_KEYWORDS, NULL                          \
    }
static PyMethodDef methods[] = {METHOD(get), METHOD(multi_get), METHOD(check),       METHOD(wait),
                                METHOD(set), METHOD(add),       METHOD(compare_set), {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_methods, methods},
                              {Py_tp_init, calls_init},
                              {Py_tp_new, PyType_GenericNew},
                              {Py_tp_traverse, calls_traverse},
                              {Py_tp_clear, calls_clear},
                              {Py_tp_dealloc, calls_dealloc},
                              {0, NULL}};
static PyType_Spec spec = {.name = "muster._fast.Calls",
                           .basicsize = sizeof(struct calls),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                           .slots = slots};

/* lingers(handle): is a thread of this process in look_unlocked() with it? */
static PyObject *lingers(PyObject *module, PyObject *number)
{
    void *handle = PyLong_AsVoidPtr(number);

    (void)module;
    if (!handle && PyErr_Occurred())
        return NULL;
    for (const struct lingerer *one = lingerers; one; one = one->next)
        if (one->handle == handle)
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

/* forget(): in the child of a fork, which has not the other threads. */
static PyObject *forget(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    lingerers = NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"lingers", lingers, METH_O, NULL}, {"forget", forget, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "muster._fast", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__fast(void)
{
    PyObject *made = PyModule_Create(&module), *type = made ? PyType_FromSpec(&spec) : NULL;

    if (!type || PyModule_AddObject(made, "Calls", type)) {
        Py_XDECREF(type);
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
