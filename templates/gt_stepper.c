/* gt_stepper.c: calls from Python into compiled models: bound ones, ones with nothing of Python in between, a lock.
 *
 * `enter`, `step` and `enter_loop` run what a gt_frame at an address holds ready, without the GIL. More arguments are
 * not looked at: they are there to be kept alive.
 *
 * A Guard is a lock for `with`. It costs next to nothing while it is free; who finds it taken sleeps and looks again,
 * and is counted in `waiting` meanwhile. Who comes while others wait lets them have it first: a thread that does
 * nothing but steps would be back before they wake. In a child after fork it is free and nobody waits, whatever the
 * threads of the parent did.
 *
 * A Stepper belongs to a gt_frame whose other arguments are bound. Called with arrays, it checks that each has the
 * expected dtype (the same object) and shape, is C-contiguous and aligned and lies outside the state, points the
 * frame's inputs at them and its outputs at fresh arrays, and runs the call without the GIL; then the frame's pointers
 * are what they were. It returns the loss as a float, or what `finish` makes of the loss and the fresh arrays. Objects
 * of one other class may stand for arrays, those that hold one in an attribute; some inputs may be Python numbers. An
 * extent that is known at run time only is read off the arrays, which must agree, and holds for this call.
 *
 * Anything else -- another number of arguments, an array that does not fit, a Guard that somebody holds, a call that
 * fails -- goes to `otherwise`, a Python function of the same arguments, which sorts it out. A failed call leaves a
 * model's state as it was, so that `otherwise` may run it again to raise the error. No Python runs under the Guard.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <structmember.h>
#include <time.h>

#include "gt_frame.h"

#define MAX_ARRAYS 128
#define MAX_RANK 8
#define MAX_DIMS 8

/* What a Guard holds while it is taken: another number in each process of a chain of forks, and never 0. */
static uint32_t mark = 1;

static void after_fork(void) { mark += 2; }

typedef struct {
    PyObject_HEAD
    uint32_t taken;
    uint64_t waiting; /* how many threads in `guard_take` found it taken; above that, the mark of their process */
} Guard;

static uint32_t waiters(uint64_t waiting) { return (uint32_t)(waiting >> 32) == mark ? (uint32_t)waiting : 0; }

static uint32_t guard_waiters(const Guard *self) { return waiters(__atomic_load_n(&self->waiting, __ATOMIC_RELAXED)); }

static void guard_count(Guard *self, uint32_t change) {
    uint64_t seen = __atomic_load_n(&self->waiting, __ATOMIC_RELAXED), then;
    do
        then = (uint64_t)mark << 32 | (uint32_t)(waiters(seen) + change);
    while (!__atomic_compare_exchange_n(&self->waiting, &seen, then, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static int guard_try(Guard *self) {
    uint32_t seen = __atomic_load_n(&self->taken, __ATOMIC_RELAXED);
    if (seen == mark)
        return 0;
    return __atomic_compare_exchange_n(&self->taken, &seen, mark, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void guard_free(Guard *self) { __atomic_store_n(&self->taken, 0, __ATOMIC_RELEASE); }

/* Sleep until it is free and take it, looking 300 times, which is some 30 ms; whether it was had. */
static int guard_wait(Guard *self) {
    struct timespec pause = {0, 2000};
    for (int look = 0; look < 300; look++) {
        nanosleep(&pause, NULL);
        if (guard_try(self))
            return 1;
        if (pause.tv_nsec < 50000)
            pause.tv_nsec *= 2;
    }
    return 0;
}

/* Wait until it is free and take it; -1 with an exception set if a signal handler raised one. */
static int guard_take(Guard *self) {
    const struct timespec give_way = {0, 1000000};
    int others = guard_waiters(self) > 0, taken = 0, raised = 0;
    if (!others && guard_try(self))
        return 0;
    guard_count(self, 1);
    while (!taken && raised == 0) {
        Py_BEGIN_ALLOW_THREADS /* also while it tries: to wait for the GIL between two looks is to miss the moment */
        if (others)
            nanosleep(&give_way, NULL);
        taken = guard_wait(self);
        Py_END_ALLOW_THREADS
        others = 0;
        if (!taken)
            raised = PyErr_CheckSignals();
    }
    guard_count(self, (uint32_t)-1);
    return raised;
}

static PyObject *guard_enter(Guard *self, PyObject *Py_UNUSED(none)) {
    return guard_take(self) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *guard_exit(Guard *self, PyObject *Py_UNUSED(error)) {
    guard_free(self);
    return Py_NewRef(Py_None);
}

static PyObject *guard_acquire(Guard *self, PyObject *arguments) {
    int blocking = 1;
    if (!PyArg_ParseTuple(arguments, "|p", &blocking))
        return NULL;
    if (blocking)
        return guard_take(self) < 0 ? NULL : Py_NewRef(Py_True);
    return PyBool_FromLong(guard_try(self));
}

static PyObject *guard_release(Guard *self, PyObject *Py_UNUSED(none)) {
    guard_free(self);
    return Py_NewRef(Py_None);
}

static PyObject *guard_waiting(Guard *self, void *Py_UNUSED(closure)) {
    return PyLong_FromUnsignedLong(guard_waiters(self));
}

static void guard_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef guard_methods[] = {
    {"__enter__", (PyCFunction)guard_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)guard_exit, METH_VARARGS, NULL},
    {"acquire", (PyCFunction)guard_acquire, METH_VARARGS, NULL},
    {"release", (PyCFunction)guard_release, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef guard_members[] = {
    {"waiting", (getter)guard_waiting, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot guard_slots[] = {
    {Py_tp_methods, guard_methods},
    {Py_tp_getset, guard_members},
    {Py_tp_dealloc, guard_dealloc},
    {0, NULL},
};

static PyType_Spec guard_spec = {
    .name = "_gtensor_stepper.Guard",
    .basicsize = sizeof(Guard),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = guard_slots,
};

typedef struct {
    PyObject *guard_type;
} State;

/* An extent: `size`, or with `dim` 0 or more `size` times that run-time dimension, which is at most `bound`. */
typedef struct {
    Py_ssize_t size;
    int dim;
    Py_ssize_t bound;
} Extent;

typedef struct {
    int64_t slot;
    PyObject *dtype;
    int number; /* instead of an array: 'f' a Python float, 'i' a Python int */
    int rank;
    Extent shape[MAX_RANK];
} Input;

typedef union {
    double f;
    int64_t i;
} Number;

typedef struct {
    int64_t slot;
    PyObject *shape; /* NULL if some extent is known at run time only */
    PyObject *dtype;
    int rank;
    Extent extents[MAX_RANK];
} Output;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    gt_frame *frame;
    Py_ssize_t state_bytes;
    PyObject *owner; /* keeps the frame alive */
    PyObject *otherwise;
    PyObject *finish; /* or NULL: the loss is the result */
    Guard *guard;
    PyObject *array_type;
    PyObject *empty;      /* numpy.empty */
    PyObject *dtype_name; /* the string "dtype" */
    PyObject *wrapper;    /* the class of objects that stand for arrays, or NULL */
    PyObject *data_name;  /* their attribute that holds the array */
    PyObject *plain;      /* attributes that must be None or False, as tuples of names: of the object, of that … */
    Py_ssize_t n_inputs;
    Py_ssize_t n_outputs;
    Py_ssize_t n_dims;
    Input *inputs;
    Output *outputs;
} Stepper;

/* Whether the attribute at the end of a path is None or False; without an exception. */
static int is_plain(PyObject *object, PyObject *path) {
    Py_INCREF(object);
    for (Py_ssize_t k = 0; object != NULL && k < PyTuple_GET_SIZE(path); k++) {
        PyObject *next = PyObject_GetAttr(object, PyTuple_GET_ITEM(path, k));
        Py_DECREF(object);
        object = next;
    }
    Py_XDECREF(object);
    PyErr_Clear();
    return object == Py_None || object == Py_False;
}

/* The array that an argument is or stands for: a new reference, or NULL without an exception. */
static PyObject *array_of(Stepper *self, PyObject *argument) {
    if ((PyObject *)Py_TYPE(argument) == self->array_type)
        return Py_NewRef(argument);
    if ((PyObject *)Py_TYPE(argument) != self->wrapper)
        return NULL;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(self->plain); k++)
        if (!is_plain(argument, PyTuple_GET_ITEM(self->plain, k)))
            return NULL;
    PyObject *array = PyObject_GetAttr(argument, self->data_name);
    PyErr_Clear();
    if (array == NULL || (PyObject *)Py_TYPE(array) == self->array_type)
        return array;
    Py_DECREF(array);
    return NULL;
}

/* Whether an argument is a number of the kind that an input expects; if so it is put into `number`. */
static int take_number(PyObject *argument, const Input *input, Number *number, Py_buffer *view) {
    int overflow = 0;
    view->obj = NULL; /* nothing to release */
    view->buf = number;
    if (input->number == 'f' && PyFloat_CheckExact(argument)) {
        number->f = PyFloat_AS_DOUBLE(argument);
        return 1;
    }
    if (input->number != 'i' || !PyLong_CheckExact(argument))
        return 0;
    number->i = PyLong_AsLongLongAndOverflow(argument, &overflow);
    return overflow == 0;
}

/* Whether memory can be read where it is: aligned, and not part of the state, which the call changes. */
static int readable(Stepper *self, const Py_buffer *view) {
    uintptr_t first = (uintptr_t)view->buf, end = first + (uintptr_t)view->len;
    uintptr_t state = (uintptr_t)self->frame->args.state;
    if (view->itemsize > 0 && first % (uintptr_t)view->itemsize != 0)
        return 0;
    return self->state_bytes == 0 || first >= state + (uintptr_t)self->state_bytes || end <= state;
}

/* Whether an array has this extent; a run-time dimension that is not known yet (-1) is put into `dims`. */
static int extends(Py_ssize_t given, const Extent *extent, int64_t *dims) {
    if (extent->dim < 0)
        return given == extent->size;
    if (dims[extent->dim] < 0 && given % extent->size == 0 && given / extent->size <= extent->bound)
        dims[extent->dim] = given / extent->size;
    return dims[extent->dim] >= 0 && given == extent->size * dims[extent->dim];
}

/* Whether an argument is what an input expects; if so its buffer is taken and must be released. */
static int take(Stepper *self, PyObject *argument, const Input *input, int64_t *dims, Number *number, Py_buffer *view) {
    if (input->number)
        return take_number(argument, input, number, view);
    PyObject *array = array_of(self, argument);
    if (array == NULL)
        return 0;
    PyObject *dtype = PyObject_GetAttr(array, self->dtype_name);
    Py_XDECREF(dtype); /* compared by identity alone */
    int same = dtype == input->dtype && PyObject_GetBuffer(array, view, PyBUF_ND) == 0;
    Py_DECREF(array); /* the buffer holds it */
    if (!same) {
        PyErr_Clear();
        return 0;
    }
    same = view->ndim == input->rank && readable(self, view);
    for (int axis = 0; same && axis < input->rank; axis++)
        same = extends(view->shape[axis], &input->shape[axis], dims);
    if (!same)
        PyBuffer_Release(view);
    return same;
}

/* The shape of an output: a new reference, or NULL with an exception set. */
static PyObject *shape_of(const Output *output, const int64_t *dims) {
    if (output->shape != NULL)
        return Py_NewRef(output->shape);
    PyObject *shape = PyTuple_New(output->rank);
    for (int axis = 0; shape != NULL && axis < output->rank; axis++) {
        const Extent *extent = &output->extents[axis];
        PyObject *size = PyLong_FromSsize_t(extent->dim < 0 ? extent->size : extent->size * dims[extent->dim]);
        if (size == NULL)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, axis, size);
    }
    return shape;
}

/* A fresh array for an output: it is put into `array`, its buffer into `view`. 0 if there is no memory for it. */
static int make(Stepper *self, const Output *output, const int64_t *dims, PyObject **array, Py_buffer *view) {
    PyObject *shape = shape_of(output, dims), *arguments[] = {shape, output->dtype};
    *array = shape == NULL ? NULL : PyObject_Vectorcall(self->empty, arguments, 2, NULL);
    Py_XDECREF(shape);
    if (*array != NULL && PyObject_GetBuffer(*array, view, PyBUF_ND | PyBUF_WRITABLE) == 0)
        return 1;
    Py_CLEAR(*array);
    PyErr_Clear();
    return 0;
}

/* The call itself, its arrays being ready; 1 if it went well. */
static int run(Stepper *self, const Py_buffer *views, int64_t *dims, double *loss) {
    gt_frame *frame = self->frame;
    const int64_t *bound = frame->args.dims;
    const void **in = (const void **)frame->args.in, *read[MAX_ARRAYS];
    void **out = (void **)frame->args.out, *written[MAX_ARRAYS];
    int32_t status;
    if (guard_waiters(self->guard) > 0 || !guard_try(self->guard))
        return 0;
    for (Py_ssize_t k = 0; k < self->n_inputs; k++) {
        read[k] = in[self->inputs[k].slot];
        in[self->inputs[k].slot] = views[k].buf;
    }
    for (Py_ssize_t k = 0; k < self->n_outputs; k++) {
        written[k] = out[self->outputs[k].slot];
        out[self->outputs[k].slot] = views[self->n_inputs + k].buf;
    }
    for (Py_ssize_t k = 0; k < self->n_dims; k++)
        dims[k] = dims[k] < 0 ? bound[k] : dims[k];
    if (self->n_dims > 0)
        frame->args.dims = dims;
    Py_BEGIN_ALLOW_THREADS
    status = frame->status = frame->call(&frame->args);
    Py_END_ALLOW_THREADS
    frame->args.dims = bound;
    *loss = frame->args.loss;
    for (Py_ssize_t k = 0; k < self->n_inputs; k++)
        in[self->inputs[k].slot] = read[k];
    for (Py_ssize_t k = 0; k < self->n_outputs; k++)
        out[self->outputs[k].slot] = written[k];
    guard_free(self->guard);
    return status == GT_OK;
}

static PyObject *stepper_call(PyObject *object, PyObject *const *arguments, size_t flags, PyObject *names) {
    Stepper *self = (Stepper *)object;
    Py_buffer views[MAX_ARRAYS];
    Number numbers[MAX_ARRAYS];
    int64_t dims[MAX_DIMS];
    PyObject *given[MAX_ARRAYS + 1], **fresh = given + 1; /* the loss comes first */
    Py_ssize_t taken = 0, made = 0, n_inputs = self->n_inputs, n_outputs = self->n_outputs;
    double loss = 0;
    PyObject *result = NULL;
    if (self->otherwise == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a step that the garbage collector took apart");
        return NULL;
    }
    for (Py_ssize_t k = 0; k < self->n_dims; k++)
        dims[k] = -1;
    int done = names == NULL && PyVectorcall_NARGS(flags) == n_inputs;
    if (done) {
        int fits = 1;
        while (taken < n_inputs && fits) {
            fits = take(self, arguments[taken], &self->inputs[taken], dims, &numbers[taken], &views[taken]);
            taken += fits;
        }
        while (fits && made < n_outputs && make(self, &self->outputs[made], dims, &fresh[made], &views[taken + made]))
            made++;
        done = fits && made == n_outputs && run(self, views, dims, &loss);
        for (Py_ssize_t k = 0; k < taken + made; k++)
            PyBuffer_Release(&views[k]);
    }
    if (done && self->finish == NULL)
        result = PyFloat_FromDouble(loss);
    else if (done && (given[0] = PyFloat_FromDouble(loss)) != NULL) {
        result = PyObject_Vectorcall(self->finish, given, (size_t)made + 1, NULL);
        Py_DECREF(given[0]);
    }
    while (made > 0)
        Py_DECREF(fresh[--made]);
    return done ? result : PyObject_Vectorcall(self->otherwise, arguments, flags, names);
}

/* Read a shape: of each axis its extent, or (number of the run-time dimension, factor, bound). -1 for more axes. */
static int fill_shape(Extent *extents, int *rank, PyObject *shape) {
    if (PyTuple_GET_SIZE(shape) > MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "more than %d axes", MAX_RANK);
        return -1;
    }
    *rank = (int)PyTuple_GET_SIZE(shape);
    for (int axis = 0; axis < *rank; axis++) {
        PyObject *item = PyTuple_GET_ITEM(shape, axis);
        Extent *extent = &extents[axis];
        extent->dim = -1;
        if (!PyTuple_Check(item))
            extent->size = PyLong_AsSsize_t(item);
        else if (!PyArg_ParseTuple(item, "inn", &extent->dim, &extent->size, &extent->bound))
            return -1;
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* Read (slot, dtype, shape, kind of number or '') of each input. */
static int fill_inputs(Stepper *self, PyObject *inputs) {
    Py_ssize_t count = PyTuple_GET_SIZE(inputs);
    self->inputs = PyMem_Calloc((size_t)count + 1, sizeof(Input));
    if (self->inputs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        Input *input = &self->inputs[k];
        PyObject *dtype, *shape;
        const char *number;
        long long slot;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(inputs, k), "LOO!s", &slot, &dtype, &PyTuple_Type, &shape, &number))
            return -1;
        input->slot = slot;
        input->dtype = Py_NewRef(dtype);
        input->number = number[0];
        self->n_inputs = k + 1;
        if (fill_shape(input->shape, &input->rank, shape) < 0)
            return -1;
    }
    return 0;
}

/* Read (slot, dtype, shape) of each output. */
static int fill_outputs(Stepper *self, PyObject *outputs) {
    Py_ssize_t count = PyTuple_GET_SIZE(outputs);
    self->outputs = PyMem_Calloc((size_t)count + 1, sizeof(Output));
    if (self->outputs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        Output *output = &self->outputs[k];
        PyObject *dtype, *shape;
        long long slot;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(outputs, k), "LOO!", &slot, &dtype, &PyTuple_Type, &shape))
            return -1;
        output->slot = slot;
        output->dtype = Py_NewRef(dtype);
        self->n_outputs = k + 1;
        if (fill_shape(output->extents, &output->rank, shape) < 0)
            return -1;
        int fixed = 1;
        for (int axis = 0; axis < output->rank; axis++)
            fixed &= output->extents[axis].dim < 0;
        output->shape = fixed ? Py_NewRef(shape) : NULL;
    }
    return 0;
}

/* Read None, or (class, attribute that holds the array, attributes that must be plain). */
static int fill_wrapper(Stepper *self, PyObject *wrapper) {
    PyObject *class, *data, *plain;
    if (wrapper == Py_None)
        return 0;
    if (!PyArg_ParseTuple(wrapper, "O!UO!", &PyType_Type, &class, &data, &PyTuple_Type, &plain))
        return -1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(plain); k++)
        if (!PyTuple_Check(PyTuple_GET_ITEM(plain, k))) {
            PyErr_SetString(PyExc_TypeError, "a path of attributes must be a tuple");
            return -1;
        }
    self->wrapper = Py_NewRef(class);
    self->data_name = Py_NewRef(data);
    self->plain = Py_NewRef(plain);
    return 0;
}

static PyObject *stepper_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    static char *keywords[] = {"frame",     "owner", "state_bytes", "inputs",     "outputs", "wrapper",
                               "otherwise", "finish", "guard",       "array_type", "empty",   "dims", NULL};
    unsigned long long frame;
    Py_ssize_t state_bytes, dims;
    PyObject *owner, *inputs, *outputs, *wrapper, *otherwise, *finish, *guard, *array_type, *empty;
    State *state = PyType_GetModuleState(type);
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "KOnO!O!OOOO!OOn", keywords, &frame, &owner, &state_bytes,
                                     &PyTuple_Type, &inputs, &PyTuple_Type, &outputs, &wrapper, &otherwise, &finish,
                                     state->guard_type, &guard, &array_type, &empty, &dims))
        return NULL;
    if (dims > MAX_DIMS)
        return PyErr_Format(PyExc_ValueError, "more than %d run-time dimensions", MAX_DIMS);
    if (PyTuple_GET_SIZE(inputs) + PyTuple_GET_SIZE(outputs) > MAX_ARRAYS)
        return PyErr_Format(PyExc_ValueError, "more than %d arrays", MAX_ARRAYS);
    Stepper *self = (Stepper *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = stepper_call;
    self->frame = (gt_frame *)(uintptr_t)frame;
    self->state_bytes = state_bytes;
    self->n_dims = dims;
    self->owner = Py_NewRef(owner);
    self->otherwise = Py_NewRef(otherwise);
    self->finish = finish == Py_None ? NULL : Py_NewRef(finish);
    self->guard = (Guard *)Py_NewRef(guard);
    self->array_type = Py_NewRef(array_type);
    self->empty = Py_NewRef(empty);
    self->dtype_name = PyUnicode_InternFromString("dtype");
    if (self->dtype_name == NULL || fill_inputs(self, inputs) < 0 || fill_outputs(self, outputs) < 0 ||
        fill_wrapper(self, wrapper) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* What a Stepper refers to that could refer to it. */
static int stepper_traverse(Stepper *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->owner);
    Py_VISIT(self->otherwise);
    Py_VISIT(self->finish);
    Py_VISIT(self->guard);
    return 0;
}

static int stepper_clear(Stepper *self) {
    Py_CLEAR(self->otherwise);
    Py_CLEAR(self->finish);
    Py_CLEAR(self->guard);
    Py_CLEAR(self->owner);
    return 0;
}

static void stepper_dealloc(Stepper *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    stepper_clear(self);
    for (Py_ssize_t k = 0; k < self->n_inputs; k++)
        Py_DECREF(self->inputs[k].dtype);
    for (Py_ssize_t k = 0; k < self->n_outputs; k++) {
        Py_DECREF(self->outputs[k].dtype);
        Py_XDECREF(self->outputs[k].shape);
    }
    PyMem_Free(self->inputs);
    PyMem_Free(self->outputs);
    PyObject *rest[] = {
        self->array_type, self->empty, self->dtype_name, self->wrapper, self->data_name, self->plain,
    };
    for (size_t k = 0; k < sizeof rest / sizeof *rest; k++)
        Py_XDECREF(rest[k]);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef stepper_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Stepper, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot stepper_slots[] = {
    {Py_tp_new, stepper_new},           {Py_tp_dealloc, stepper_dealloc}, {Py_tp_traverse, stepper_traverse},
    {Py_tp_clear, stepper_clear},       {Py_tp_call, PyVectorcall_Call},  {Py_tp_members, stepper_members},
    {0, NULL},
};

static PyType_Spec stepper_spec = {
    .name = "_gtensor_stepper.Stepper",
    .basicsize = sizeof(Stepper),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = stepper_slots,
};

/* A pointer that was given as an integer; NULL with an exception set for anything else. */
static void *pointer(PyObject *const *arguments, Py_ssize_t count, Py_ssize_t which) {
    if (count > which)
        return PyLong_AsVoidPtr(arguments[which]);
    PyErr_SetString(PyExc_TypeError, "an address is missing");
    return NULL;
}

static int32_t enter_frame(gt_frame *frame) {
    Py_BEGIN_ALLOW_THREADS
    frame->status = frame->call(&frame->args);
    Py_END_ALLOW_THREADS
    return frame->status;
}

/* enter(frame, …): run the call; its status. */
static PyObject *module_enter(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    gt_frame *frame = pointer(arguments, count, 0);
    return frame == NULL ? NULL : PyLong_FromLong(enter_frame(frame));
}

/* step(frame, …): run the call; the loss, or NaN when it failed: only then need the caller look at the status. */
static PyObject *module_step(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    gt_frame *frame = pointer(arguments, count, 0);
    return frame == NULL ? NULL : PyFloat_FromDouble(enter_frame(frame) == GT_OK ? frame->args.loss : NAN);
}

/* enter_loop(frame, loop, …): run many calls; the status of the last. */
static PyObject *module_enter_loop(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    gt_frame *frame = pointer(arguments, count, 0);
    gt_loop *loop = frame == NULL ? NULL : pointer(arguments, count, 1);
    if (loop == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    frame->status = frame->run(&frame->args, loop);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(frame->status);
}

static PyMethodDef module_methods[] = {
    {"enter", (PyCFunction)(void (*)(void))module_enter, METH_FASTCALL, NULL},
    {"step", (PyCFunction)(void (*)(void))module_step, METH_FASTCALL, NULL},
    {"enter_loop", (PyCFunction)(void (*)(void))module_enter_loop, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) {
    static int watching = 0;
    State *state = PyModule_GetState(module);
    if (!watching && pthread_atfork(NULL, NULL, after_fork) == 0)
        watching = 1;
    state->guard_type = PyType_FromModuleAndSpec(module, &guard_spec, NULL);
    if (state->guard_type == NULL || PyModule_AddObjectRef(module, "Guard", state->guard_type) < 0)
        return -1;
    PyObject *type = PyType_FromModuleAndSpec(module, &stepper_spec, NULL);
    if (type == NULL)
        return -1;
    int failed = PyModule_AddObjectRef(module, "Stepper", type);
    Py_DECREF(type);
    return failed;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
    Py_VISIT(((State *)PyModule_GetState(module))->guard_type);
    return 0;
}

static int module_clear(PyObject *module) {
    Py_CLEAR(((State *)PyModule_GetState(module))->guard_type);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_gtensor_stepper",
    .m_size = sizeof(State),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__gtensor_stepper(void) { return PyModuleDef_Init(&module); }
