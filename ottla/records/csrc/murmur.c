/* Keys to hashes, and to partitions (murmur.py). */

#include "native.h"

#include "murmur.h"

PyDoc_STRVAR(murmur2_doc,
"murmur2(key, /)\n--\n\n"
"Kafka's hash of a key: a signed 32-bit number.");

static PyObject *
murmur2(PyObject *Py_UNUSED(module), PyObject *key)
{
    Py_buffer held;
    if (PyObject_GetBuffer(key, &held, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    uint32_t hash = murmur2_of(held.buf, (size_t)held.len);
    PyBuffer_Release(&held);
    return PyLong_FromLong((int32_t)hash);
}

PyDoc_STRVAR(partition_of_doc,
"partition_of(key, partition_count, /)\n--\n\n"
"The partition of a record with this key, where nobody asked for another.");

static PyObject *
partition_of(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t arg_count)
{
    if (arg_count != 2) {
        return PyErr_Format(PyExc_TypeError, "partition_of takes 2 arguments, not %zd", arg_count);
    }
    long partition_count = PyLong_AsLong(args[1]);
    if (partition_count == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (partition_count <= 0) {
        PyErr_SetString(PyExc_ZeroDivisionError, "a topic has at least one partition");
        return NULL;
    }
    Py_buffer held;
    if (PyObject_GetBuffer(args[0], &held, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    uint32_t hash = murmur2_of(held.buf, (size_t)held.len);
    PyBuffer_Release(&held);
    return PyLong_FromLong((long)(hash & INT32_MAX) % partition_count);
}

PyMethodDef murmur_functions[] = {
    {"murmur2", murmur2, METH_O, murmur2_doc},
    {"partition_of", (PyCFunction)(void (*)(void))partition_of, METH_FASTCALL, partition_of_doc},
    {NULL, NULL, 0, NULL},
};
