/* gt_stepper.c: one step from Python with nothing of Python in between.
 *
 * A Stepper belongs to a gt_frame whose other arguments are bound. Called with arrays, it checks that each has the
 * expected dtype (the same object) and shape and is C-contiguous, points the frame's inputs at them, runs the call
 * without the GIL and returns the loss as a float; then the frame's inputs are what they were. Anything else -- another
 * number of arguments, an array that does not fit, a lock that somebody holds, a call that fails -- goes to
 * `otherwise`, a Python function of the same arguments, which sorts it out. A failed call leaves a model's state as it
 * was, so that `otherwise` may run it again to raise the error.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>

#include "gt_frame.h"

#define MAX_INPUTS 8
#define MAX_RANK 8

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
    PyObject *acquire, *release; /* methods of the lock */
    PyObject *dtype_name;        /* the string "dtype" */
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
    if (self->acquire == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a step that the garbage collector took apart");
        return NULL;
    }
    if (names != NULL || PyVectorcall_NARGS(flags) != self->count)
        return PyObject_Vectorcall(self->otherwise, arguments, flags, names);
    PyObject *now[] = {NULL, Py_False}; /* the first place is the callee's to use */
    PyObject *got = PyObject_Vectorcall(self->acquire, now + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (got == NULL)
        return NULL;
    int ours = got == Py_True, done = 0;
    double loss = 0;
    Py_DECREF(got);
    if (ours) {
        done = step(self, arguments, &loss);
        PyObject *released = PyObject_CallNoArgs(self->release);
        if (released == NULL)
            return NULL;
        Py_DECREF(released);
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
    static char *keywords[] = {"frame", "owner", "inputs", "otherwise", "lock", NULL};
    unsigned long long frame;
    PyObject *owner, *inputs, *otherwise, *lock;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "KOO!OO", keywords, &frame, &owner, &PyTuple_Type, &inputs,
                                     &otherwise, &lock))
        return NULL;
    Stepper *self = (Stepper *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = stepper_call;
    self->frame = (gt_frame *)(uintptr_t)frame;
    self->owner = Py_NewRef(owner);
    self->otherwise = Py_NewRef(otherwise);
    self->acquire = PyObject_GetAttrString(lock, "acquire");
    self->release = PyObject_GetAttrString(lock, "release");
    self->dtype_name = PyUnicode_InternFromString("dtype");
    if (self->acquire == NULL || self->release == NULL || self->dtype_name == NULL || fill(self, inputs) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int stepper_traverse(Stepper *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->owner);
    Py_VISIT(self->otherwise);
    Py_VISIT(self->acquire);
    Py_VISIT(self->release);
    for (Py_ssize_t k = 0; k < self->count; k++)
        Py_VISIT(self->inputs[k].dtype);
    return 0;
}

static int stepper_clear(Stepper *self) {
    Py_CLEAR(self->otherwise);
    Py_CLEAR(self->acquire);
    Py_CLEAR(self->release);
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
    PyObject *type = PyType_FromModuleAndSpec(module, &stepper_spec, NULL);
    if (type == NULL)
        return -1;
    int failed = PyModule_AddObjectRef(module, "Stepper", type);
    Py_DECREF(type);
    return failed;
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
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__gtensor_stepper(void) { return PyModuleDef_Init(&module); }
