/* What the parts of the compiled module `ottla.records.native` share: its state, its faults, its names.
 *
 * The module is the loops that touch every record; `ottla/records/fast.py` takes them where they were built. Every
 * function and type has a twin of the same name, arguments and results in plain Python (append.py, murmur.py,
 * consumed.py, columns.py), which is the specification; tests/unit/records asks both. Nothing here knows a batch's
 * header, a checksum or a codec: sections of records come in decompressed and checked, and go out bare.
 *
 * The rules: what is read is compared with its bounds first; nothing is allocated by a number that the input does not
 * back with bytes; where a whole section is decoded or encoded the GIL is released, and between
 * Py_BEGIN_ALLOW_THREADS and its end no Python object is touched: a failure is carried out as a `Fault`.
 */

#ifndef OTTLA_NATIVE_H
#define OTTLA_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#include "memory.h"

/* --- faults --- */

typedef enum {
    NO_FAULT = 0,
    CUT_SHORT,
    LEFT_OVER,            /* first: the bytes */
    WRONG_SIZE,           /* first: the size that was promised; second: the size that was read */
    VARINT_TOO_LONG,
    VARLONG_TOO_LONG,
    BAD_RECORD_COUNT,     /* first: the count */
    BAD_HEADER_COUNT,     /* first: the count */
    TOO_MANY_HEADERS,     /* first: the count */
    BAD_HEADER_NAME_SIZE, /* first: the size */
    COLUMN_FULL,
    BAD_COLUMN,           /* first: the row */
    BAD_HEADER_NAME,      /* first: the row */
    BAD_ROW,              /* first: the row */
    RECORD_TOO_LARGE,     /* first: the size */
    OUT_OF_MEMORY,
} FaultKind;

/* What went wrong where no exception can be set, because the GIL is not held. */
typedef struct {
    FaultKind kind;
    int64_t first;
    int64_t second;
} Fault;

/* --- the module's state --- */

typedef struct {
    Spares spares;
    PyObject *invalid_record;
    PyObject *consumer_record; /* both from consumed.py, once they are needed */
    PyObject *timestamp_types;
    PyObject *memory_type;
    PyObject *column_builder_type;
    PyObject *row_encoder_type;
} State;

/* Set the exception that a fault is. Always NULL. */
PyObject *raise_fault(const State *state, const Fault *fault);

/* A view of what the heap holds, to be read or to be written; the heap is empty afterwards. NULL with an exception, and
 * the heap as it was. */
PyObject *heap_release(State *state, Heap *heap);
PyObject *heap_release_writable(State *state, Heap *heap);

/* --- the parts --- */

extern PyMethodDef memory_functions[];
extern PyMethodDef append_functions[];
extern PyMethodDef murmur_functions[];
extern PyMethodDef consumed_functions[];
extern PyMethodDef row_functions[];
extern PyType_Spec memory_spec;
extern PyType_Spec column_builder_spec;
extern PyType_Spec row_encoder_spec;

/* --- arguments --- */

static inline int
get_int64(PyObject *object, int64_t *value)
{
    *value = PyLong_AsLongLong(object);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

/* A nullable run of bytes: size -1 is null. Borrowed from a `bytes` object, or held through the buffer protocol. */
typedef struct {
    const uint8_t *data;
    Py_ssize_t size;
    Py_buffer held; /* held.obj is NULL where nothing is held */
} Span;

static inline int
open_span(PyObject *object, Span *span)
{
    span->held.obj = NULL;
    if (object == Py_None) {
        span->data = NULL;
        span->size = -1;
        return 0;
    }
    if (PyBytes_CheckExact(object)) {
        span->data = (const uint8_t *)PyBytes_AS_STRING(object);
        span->size = PyBytes_GET_SIZE(object);
        return 0;
    }
    if (PyObject_GetBuffer(object, &span->held, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    span->data = span->held.buf;
    span->size = span->held.len;
    return 0;
}

static inline void
close_span(Span *span)
{
    if (span->held.obj != NULL) {
        PyBuffer_Release(&span->held);
    }
}

#endif
