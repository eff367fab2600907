/* gt_stepper.c: one step from Python with nothing of Python in between, and the lock that goes with it.
 *
 * A Guard is a lock for `with`. It costs next to nothing while it is free; who finds it taken sleeps and looks again.
 * In a child after fork it is free, whatever thread of the parent held it.
 *
 * A Stepper belongs to a gt_frame whose other arguments are bound. Called with arrays, it checks that each has the
 * expected dtype (the same object) and shape and is C-contiguous, points the frame's inputs at them, runs the call
 * without the GIL and returns the loss as a float; then the frame's inputs are what they were. Anything else -- another
 * number of arguments, an array that does not fit, a Guard that somebody holds, a call that fails -- goes to
 * `otherwise`, a Python function of the same arguments, which sorts it out. A failed call leaves a model's state as it
 * was, so that `otherwise` may run it again to raise the error.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stddef.h>
#include <structmember.h>
#include <time.h>

#include "gt_frame.h"

#define MAX_INPUTS 8
#define MAX_RANK 8

/* What a Guard holds while it is taken: another number in each process of a chain of forks, and never 0. */
static uint32_t mark = 1;

static void after_fork(void) { mark += 2; }

typedef struct {
    PyObject_HEAD
    uint32_t taken;
} Guard;

static int guard_try(Guard *self) {
    uint32_t seen = __atomic_load_n(&self->taken, __ATOMIC_RELAXED);
    return seen != mark && __atomic_compare_exchange_n(&self->taken, &seen, mark, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void guard_free(Guard *self) { __atomic_store_n(&self->taken, 0, __ATOMIC_RELEASE); }

static PyObject *guard_enter(Guard *self, PyObject *Py_UNUSED(none)) {
    struct timespec pause = {0, 2000};
    while (!guard_try(self)) {
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&pause, NULL);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0)
            return NULL;
        if (pause.tv_nsec < 500000)
            pause.tv_nsec *= 2;
    }
    return Py_NewRef(Py_None);
}

static PyObject *guard_exit(Guard *self, PyObject *Py_UNUSED(error)) {
    guard_free(self);
    return Py_NewRef(Py_None);
}

static void guard_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef guard_methods[] = {
    {"__enter__", (PyCFunction)guard_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)guard_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot guard_slots[] = {{Py_tp_methods, guard_methods}, {Py_tp_dealloc, guard_dealloc}, {0, NULL}};

static PyType_Spec guard_spec = {
    .name = "_gtensor_stepper.Guard",
    .basicsize = sizeof(Guard),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = guard_slots,
};

typedef struct {
    PyObject *guard_type;
} State;

typedef struct {
    int64_t slot;
    PyObject *dtype;
    int rank;
    Py_ssize_t shape[MAX_RANK];
} Input;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    gt_frame *frame;
    PyObject *owner; /* keeps the frame alive */
    PyObject *otherwise;
    Guard *guard;
    PyObject *dtype_name; /* the string "dtype" */
    Py_ssize_t count;
    Input inputs[MAX_INPUTS];
} Stepper;

/* Whether an argument is what an input expects; if so its buffer is taken and must be released. */
static int take(Stepper *self, PyObject *argument, const Input *input, Py_buffer *view) {
    PyObject *dtype = PyObject_GetAttr(argument, self->dtype_name);
    if (dtype == NULL) {
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(dtype); /* compared by identity alone */
    if (dtype != input->dtype)
        return 0;
    if (PyObject_GetBuffer(argument, view, PyBUF_ND) < 0) {
        PyErr_Clear();
        return 0;
    }
    int same = view->ndim == input->rank;
    for (int axis = 0; same && axis < input->rank; axis++)
        same = view->shape[axis] == input->shape[axis];
    if (!same)
        PyBuffer_Release(view);
    return same;
}

/* The step itself: 1 and the loss if it went well, 0 if `otherwise` has to serve, -1 with an exception set. */
static int step(Stepper *self, PyObject *const *arguments, double *loss) {
    Py_buffer views[MAX_INPUTS];
    const void *before[MAX_INPUTS];
    const void **in = (const void **)self->frame->args.in;
    Py_ssize_t taken = 0;
    int32_t status = -1;
    while (taken < self->count && take(self, arguments[taken], &self->inputs[taken], &views[taken]))
        taken++;
    if (taken == self->count) {
        for (Py_ssize_t k = 0; k < taken; k++) {
            before[k] = in[self->inputs[k].slot];
            in[self->inputs[k].slot] = views[k].buf;
        }
        gt_frame *frame = self->frame;
        Py_BEGIN_ALLOW_THREADS
        status = frame->status = frame->call(&frame->args);
        Py_END_ALLOW_THREADS
        *loss = frame->args.loss;
        for (Py_ssize_t k = 0; k < taken; k++)
            in[self->inputs[k].slot] = before[k];
    }
    while (taken > 0)
        PyBuffer_Release(&views[--taken]);
    return status == GT_OK;
}

static PyObject *stepper_call(PyObject *object, PyObject *const *arguments, size_t flags, PyObject *names) {
    Stepper *self = (Stepper *)object;
    int done = 0;
    double loss = 0;
    if (self->otherwise == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a step that the garbage collector took apart");
        return NULL;
    }
    if (names == NULL && PyVectorcall_NARGS(flags) == self->count && guard_try(self->guard)) {
        done = step(self, arguments, &loss);
        guard_free(self->guard);
    }
    return done ? PyFloat_FromDouble(loss) : PyObject_Vectorcall(self->otherwise, arguments, flags, names);
}

static int fill(Stepper *self, PyObject *inputs) {
    Py_ssize_t count = PyTuple_Size(inputs);
    if (count > MAX_INPUTS) {
        PyErr_Format(PyExc_ValueError, "more than %d inputs", MAX_INPUTS);
        return -1;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        Input *input = &self->inputs[k];
        PyObject *shape;
        long long slot;
        if (!PyArg_ParseTuple(PyTuple_GetItem(inputs, k), "LOO!", &slot, &input->dtype, &PyTuple_Type, &shape)) {
            input->dtype = NULL;
            return -1;
        }
        Py_INCREF(input->dtype);
        self->count = k + 1;
        input->slot = slot;
        if (PyTuple_Size(shape) > MAX_RANK) {
            PyErr_Format(PyExc_ValueError, "more than %d axes", MAX_RANK);
            return -1;
        }
        input->rank = (int)PyTuple_Size(shape);
        for (int axis = 0; axis < input->rank; axis++)
            input->shape[axis] = PyLong_AsSsize_t(PyTuple_GetItem(shape, axis));
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *stepper_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    static char *keywords[] = {"frame", "owner", "inputs", "otherwise", "guard", NULL};
    unsigned long long frame;
    PyObject *owner, *inputs, *otherwise, *guard;
    State *state = PyType_GetModuleState(type);
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "KOO!OO!", keywords, &frame, &owner, &PyTuple_Type, &inputs,
                                     &otherwise, state->guard_type, &guard))
        return NULL;
    Stepper *self = (Stepper *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = stepper_call;
    self->frame = (gt_frame *)(uintptr_t)frame;
    self->owner = Py_NewRef(owner);
    self->otherwise = Py_NewRef(otherwise);
    self->guard = (Guard *)Py_NewRef(guard);
    self->dtype_name = PyUnicode_InternFromString("dtype");
    if (self->dtype_name == NULL || fill(self, inputs) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int stepper_traverse(Stepper *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->owner);
    Py_VISIT(self->otherwise);
    Py_VISIT(self->guard);
    for (Py_ssize_t k = 0; k < self->count; k++)
        Py_VISIT(self->inputs[k].dtype);
    return 0;
}

static int stepper_clear(Stepper *self) {
    Py_CLEAR(self->otherwise);
    Py_CLEAR(self->guard);
    Py_CLEAR(self->dtype_name);
    for (Py_ssize_t k = 0; k < self->count; k++)
        Py_CLEAR(self->inputs[k].dtype);
    Py_CLEAR(self->owner);
    return 0;
}

static void stepper_dealloc(Stepper *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    stepper_clear(self);
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
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__gtensor_stepper(void) { return PyModuleDef_Init(&module); }
