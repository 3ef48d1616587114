/* append_record: one record behind the others (append.py). */

#include "native.h"

#include "bytes.h"

#define HEADERS_ON_STACK 8

typedef struct {
    PyObject *pair; /* keeps name and value alive */
    const char *name;
    Py_ssize_t name_size;
    Span value;
} HeaderSpan;

static int
open_header(PyObject *item, HeaderSpan *header)
{
    PyObject *pair = PySequence_Tuple(item); /* a tuple is only counted, not copied */
    if (pair == NULL) {
        return -1;
    }
    if (PyTuple_GET_SIZE(pair) != 2) {
        PyErr_SetString(PyExc_ValueError, "a header is a pair of its name and its value");
        goto fail;
    }
    PyObject *name = PyTuple_GET_ITEM(pair, 0);
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "the name of a header is a str, not %.100s", Py_TYPE(name)->tp_name);
        goto fail;
    }
    header->name = PyUnicode_AsUTF8AndSize(name, &header->name_size);
    if (header->name == NULL || open_span(PyTuple_GET_ITEM(pair, 1), &header->value) < 0) {
        goto fail;
    }
    header->pair = pair;
    return 0;

fail:
    Py_DECREF(pair);
    return -1;
}

static void
close_headers(HeaderSpan *headers, Py_ssize_t count)
{
    for (Py_ssize_t index = 0; index < count; index++) {
        close_span(&headers[index].value);
        Py_DECREF(headers[index].pair);
    }
}

/* Write the record behind the buffer's end. The new size; -1 where it is beyond `size_max`; -2 with an exception. */
static Py_ssize_t
append_spans(PyObject *buffer, int64_t offset_delta, int64_t timestamp_delta, const Span *key, const Span *value,
             const HeaderSpan *headers, Py_ssize_t header_count, Py_ssize_t size_max)
{
    int64_t body_size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + field_size(key->size) +
                        field_size(value->size) + varint_size(header_count);
    for (Py_ssize_t index = 0; index < header_count; index++) {
        body_size += field_size(headers[index].name_size) + field_size(headers[index].value.size);
    }
    if (body_size > INT32_BYTES_MAX) {
        PyErr_Format(PyExc_ValueError, "a record of %lld bytes is larger than the format can say", body_size);
        return -2;
    }
    Py_ssize_t old_size = PyByteArray_GET_SIZE(buffer);
    Py_ssize_t new_size = old_size + varint_size(body_size) + body_size;
    if (new_size > size_max) {
        return -1;
    }
    if (PyByteArray_Resize(buffer, new_size) < 0) {
        return -2;
    }
    uint8_t *at = (uint8_t *)PyByteArray_AS_STRING(buffer) + old_size;
    at = put_varint(at, body_size);
    *at++ = 0; /* the attributes, of which no bit has a meaning yet */
    at = put_varint(at, timestamp_delta);
    at = put_varint(at, offset_delta);
    at = put_field(at, key->data, key->size);
    at = put_field(at, value->data, value->size);
    at = put_varint(at, header_count);
    for (Py_ssize_t index = 0; index < header_count; index++) {
        at = put_field(at, (const uint8_t *)headers[index].name, headers[index].name_size);
        at = put_field(at, headers[index].value.data, headers[index].value.size);
    }
    assert(at == (uint8_t *)PyByteArray_AS_STRING(buffer) + new_size);
    return new_size;
}

static Py_ssize_t
append_with_headers(PyObject *buffer, int64_t offset_delta, int64_t timestamp_delta, const Span *key,
                    const Span *value, PyObject *headers, Py_ssize_t size_max)
{
    HeaderSpan on_stack[HEADERS_ON_STACK];
    HeaderSpan *spans = on_stack;
    Py_ssize_t result = -2;
    Py_ssize_t opened = 0;
    /* A tuple of our own, because opening a value may run Python code, which might change a list. */
    PyObject *items = PySequence_Tuple(headers);
    if (items == NULL) {
        return -2;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(items);
    if (count > HEADERS_ON_STACK) {
        spans = PyMem_New(HeaderSpan, (size_t)count);
        if (spans == NULL) {
            PyErr_NoMemory();
            goto done;
        }
    }
    for (; opened < count; opened++) {
        if (open_header(PyTuple_GET_ITEM(items, opened), &spans[opened]) < 0) {
            goto done;
        }
    }
    result = append_spans(buffer, offset_delta, timestamp_delta, key, value, spans, count, size_max);

done:
    close_headers(spans, opened);
    if (spans != on_stack) {
        PyMem_Free(spans);
    }
    Py_DECREF(items);
    return result;
}

PyDoc_STRVAR(append_record_doc,
"append_record(buffer, offset_delta, timestamp_delta, key, value, headers, size_max, /)\n--\n\n"
"Append one record to a bytearray; its new size, or -1 and nothing appended where that is beyond `size_max`.");

static PyObject *
append_record(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t arg_count)
{
    if (arg_count != 6 && arg_count != 7) {
        return PyErr_Format(PyExc_TypeError, "append_record takes 6 or 7 arguments, not %zd", arg_count);
    }
    PyObject *buffer = args[0];
    if (!PyByteArray_Check(buffer)) {
        return PyErr_Format(PyExc_TypeError, "records are appended to a bytearray, not to %.100s",
                            Py_TYPE(buffer)->tp_name);
    }
    int64_t offset_delta = PyLong_AsLongLong(args[1]);
    if (offset_delta == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int64_t timestamp_delta = PyLong_AsLongLong(args[2]);
    if (timestamp_delta == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Py_ssize_t size_max = PY_SSIZE_T_MAX;
    if (arg_count == 7) {
        size_max = PyLong_AsSsize_t(args[6]);
        if (size_max == -1 && PyErr_Occurred()) {
            return NULL;
        }
    }
    Span key, value;
    if (open_span(args[3], &key) < 0) {
        return NULL;
    }
    if (open_span(args[4], &value) < 0) {
        close_span(&key);
        return NULL;
    }
    PyObject *headers = args[5];
    Py_ssize_t size;
    if (PyTuple_CheckExact(headers) && PyTuple_GET_SIZE(headers) == 0) {
        size = append_spans(buffer, offset_delta, timestamp_delta, &key, &value, NULL, 0, size_max);
    }
    else {
        size = append_with_headers(buffer, offset_delta, timestamp_delta, &key, &value, headers, size_max);
    }
    close_span(&key);
    close_span(&value);
    return size == -2 ? NULL : PyLong_FromSsize_t(size);
}

PyMethodDef append_functions[] = {
    {"append_record", (PyCFunction)(void (*)(void))append_record, METH_FASTCALL, append_record_doc},
    {NULL, NULL, 0, NULL},
};
