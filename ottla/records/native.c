/* The loops that touch every record, in C: what `ottla/records/fast.py` takes when it was built.
 *
 * Every function and type here has a twin of the same name, arguments and results in plain Python (append.py,
 * murmur.py, columns.py, consumed.py), which is the specification; tests/unit/records runs both. Nothing here knows
 * a batch's header, a checksum or a codec: sections of records come in decompressed and checked, and go out bare.
 *
 * The rule for reading: no byte is read before it is known to be inside the section, no length is believed before it
 * is compared with what is left, nothing is allocated by a number that the section does not back with bytes. Where a
 * whole section is decoded or encoded, the GIL is released; between Py_BEGIN_ALLOW_THREADS and its end no Python
 * object is touched, and a failure is carried out as a `Fault` and raised afterwards.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#define INT32_BYTES_MAX ((int64_t)INT32_MAX)

/* --- varints: zigzag, seven bits a byte, the lowest first (varint.py) --- */

static inline uint64_t
zigzag_encode(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t
zigzag_decode(uint64_t number)
{
    return (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
}

static inline Py_ssize_t
unsigned_size(uint64_t number)
{
    Py_ssize_t size = 1;
    while (number > 0x7f) {
        number >>= 7;
        size++;
    }
    return size;
}

static inline Py_ssize_t
varint_size(int64_t value)
{
    return unsigned_size(zigzag_encode(value));
}

static inline uint8_t *
put_varint(uint8_t *at, int64_t value)
{
    uint64_t number = zigzag_encode(value);
    while (number > 0x7f) {
        *at++ = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    *at++ = (uint8_t)number;
    return at;
}

static inline uint8_t *
put_bytes(uint8_t *at, const void *data, Py_ssize_t size)
{
    memcpy(at, data, (size_t)size);
    return at + size;
}

/* --- bytes-like arguments --- */

/* A nullable run of bytes: size -1 is null. Borrowed from a `bytes` object, or held through the buffer protocol. */
typedef struct {
    const uint8_t *data;
    Py_ssize_t size;
    Py_buffer held; /* held.obj is NULL where nothing is held */
} Span;

static int
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

/* The bytes of a nullable field, with its size in front. */
static inline int64_t
field_size(Py_ssize_t size)
{
    return size < 0 ? 1 : varint_size(size) + size;
}

static inline uint8_t *
put_field(uint8_t *at, const uint8_t *data, Py_ssize_t size)
{
    if (size < 0) {
        *at++ = 1; /* -1 */
        return at;
    }
    at = put_varint(at, size);
    return size == 0 ? at : put_bytes(at, data, size);
}

/* --- append_record (append.py) --- */

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

/* --- murmur2 (murmur.py) --- */

static uint32_t
murmur2_of(const uint8_t *data, size_t size)
{
    const uint32_t m = 0x5bd1e995;
    uint32_t hash = 0x9747b28c ^ (uint32_t)size;
    for (; size >= 4; data += 4, size -= 4) {
        uint32_t word = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        word *= m;
        word ^= word >> 24;
        word *= m;
        hash = hash * m ^ word;
    }
    if (size > 0) {
        for (size_t index = size; index-- > 0;) {
            hash ^= (uint32_t)data[index] << (8 * index);
        }
        hash *= m;
    }
    hash ^= hash >> 13;
    hash *= m;
    return hash ^ hash >> 15;
}

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

/* --- the module --- */

static PyMethodDef functions[] = {
    {"append_record", (PyCFunction)(void (*)(void))append_record, METH_FASTCALL, append_record_doc},
    {"murmur2", murmur2, METH_O, murmur2_doc},
    {"partition_of", (PyCFunction)(void (*)(void))partition_of, METH_FASTCALL, partition_of_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "ottla.records.native",
    .m_doc = "The loops that touch every record, in C; ottla.records.fast chooses between them and their twins.",
    .m_size = 0,
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit_native(void)
{
    return PyModuleDef_Init(&definition);
}
