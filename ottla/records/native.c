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

/* --- reading a section of records (decode.py) --- */

/* The smallest record: its size, attributes, two deltas, a null key, a null value, no headers. */
#define RECORD_SIZE_MIN 7

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

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    Fault fault;
} Reader;

typedef struct {
    int64_t timestamp_delta;
    int64_t offset_delta;
    const uint8_t *key;
    int64_t key_size; /* negative is null, as is value_size */
    const uint8_t *value;
    int64_t value_size;
    int64_t header_count;
    const uint8_t *headers; /* the first of them, all of which have been read over */
} RawRecord;

typedef struct {
    const uint8_t *name;
    int64_t name_size;
    const uint8_t *value;
    int64_t value_size;
} RawHeader;

static int
failed(Reader *reader, FaultKind kind, int64_t first, int64_t second)
{
    reader->fault = (Fault){kind, first, second};
    return -1;
}

/* A number of up to `size_max` bytes that begins with a byte of 0x80 or more. */
static int
read_long_unsigned(Reader *reader, uint64_t *number, int size_max)
{
    const uint8_t *at = reader->at;
    uint64_t value = 0;
    for (int index = 0; index < size_max; index++) {
        if (at >= reader->end) {
            return failed(reader, CUT_SHORT, 0, 0);
        }
        uint8_t byte = *at++;
        value |= (uint64_t)(byte & 0x7f) << (7 * index); /* bits beyond the 64th are dropped, as in Java */
        if (byte < 0x80) {
            reader->at = at;
            *number = value;
            return 0;
        }
    }
    return failed(reader, size_max == 5 ? VARINT_TOO_LONG : VARLONG_TOO_LONG, 0, 0);
}

static inline int
read_unsigned(Reader *reader, uint64_t *number)
{
    const uint8_t *at = reader->at;
    if (at < reader->end && *at < 0x80) {
        *number = *at;
        reader->at = at + 1;
        return 0;
    }
    if (reader->end - at >= 2 && at[1] < 0x80) {
        *number = (uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7;
        reader->at = at + 2;
        return 0;
    }
    if (read_long_unsigned(reader, number, 5) < 0) {
        return -1;
    }
    *number &= UINT32_MAX;
    return 0;
}

static inline int
read_varint(Reader *reader, int64_t *value)
{
    uint64_t number;
    if (read_unsigned(reader, &number) < 0) {
        return -1;
    }
    *value = zigzag_decode(number);
    return 0;
}

static inline int
read_varlong(Reader *reader, int64_t *value)
{
    uint64_t number;
    const uint8_t *at = reader->at;
    if (at < reader->end && *at < 0x80) {
        number = *at;
        reader->at = at + 1;
    }
    else if (read_long_unsigned(reader, &number, 10) < 0) {
        return -1;
    }
    *value = zigzag_decode(number);
    return 0;
}

/* A size and as many bytes; any size below zero is null. */
static inline int
read_field(Reader *reader, const uint8_t **data, int64_t *size)
{
    if (read_varint(reader, size) < 0) {
        return -1;
    }
    *data = reader->at;
    if (*size > 0) {
        if (*size > reader->end - reader->at) {
            return failed(reader, CUT_SHORT, 0, 0);
        }
        reader->at += *size;
    }
    return 0;
}

static int
read_header(Reader *reader, RawHeader *header)
{
    if (read_field(reader, &header->name, &header->name_size) < 0) {
        return -1;
    }
    if (header->name_size < 0) {
        return failed(reader, BAD_HEADER_NAME_SIZE, header->name_size, 0);
    }
    return read_field(reader, &header->value, &header->value_size);
}

static int
skip_headers(Reader *reader, RawRecord *record)
{
    if (read_varint(reader, &record->header_count) < 0) {
        return -1;
    }
    record->headers = reader->at;
    if (record->header_count < 0) {
        return failed(reader, BAD_HEADER_COUNT, record->header_count, 0);
    }
    if (record->header_count > reader->end - reader->at) {
        return failed(reader, TOO_MANY_HEADERS, record->header_count, 0);
    }
    for (int64_t index = 0; index < record->header_count; index++) {
        RawHeader header;
        if (read_header(reader, &header) < 0) {
            return -1;
        }
    }
    return 0;
}

static inline int
read_record(Reader *reader, RawRecord *record)
{
    int64_t size;
    if (read_varint(reader, &size) < 0) {
        return -1;
    }
    const uint8_t *body = reader->at;
    if (reader->end - body < RECORD_SIZE_MIN - 1) {
        return failed(reader, CUT_SHORT, 0, 0);
    }
    reader->at++; /* the attributes */
    if (read_varlong(reader, &record->timestamp_delta) < 0 || read_varint(reader, &record->offset_delta) < 0 ||
        read_field(reader, &record->key, &record->key_size) < 0 ||
        read_field(reader, &record->value, &record->value_size) < 0) {
        return -1;
    }
    if (reader->at < reader->end && *reader->at == 0) {
        record->header_count = 0;
        reader->at++;
    }
    else if (skip_headers(reader, record) < 0) {
        return -1;
    }
    if (reader->at - body != size) {
        return failed(reader, WRONG_SIZE, size, reader->at - body);
    }
    return 0;
}

/* The sum as Java's `long` has it. */
static inline int64_t
wrapping_sum(int64_t left, int64_t right)
{
    return (int64_t)((uint64_t)left + (uint64_t)right);
}

/* --- blocks of memory that are used again --- */

/* The pages of a large block are the kernel's to give: the first touch of each costs more than decoding the records
 * that it holds. So blocks that Python has let go of wait here for the next column, and a consumer that polls in a
 * loop touches no new page. Only with the GIL held. */
#define SPARE_COUNT_MAX 32
#define SPARE_BYTES_MAX (64u << 20)
#define SPARE_SIZE_MIN (64u << 10) /* the allocator does well below it */

typedef struct {
    uint8_t *data;
    size_t capacity;
} Block;

typedef struct {
    Block blocks[SPARE_COUNT_MAX];
    int count;
    size_t bytes;
} Spares;

static void
spares_put(Spares *spares, uint8_t *data, size_t capacity)
{
    if (capacity < SPARE_SIZE_MIN || spares->count == SPARE_COUNT_MAX || capacity > SPARE_BYTES_MAX - spares->bytes) {
        PyMem_RawFree(data);
        return;
    }
    spares->blocks[spares->count++] = (Block){data, capacity};
    spares->bytes += capacity;
}

/* The smallest that holds `size` bytes, but none that would be mostly empty; data is NULL where there is none. */
static Block
spares_take(Spares *spares, size_t size)
{
    int best = -1;
    for (int index = 0; index < spares->count; index++) {
        size_t capacity = spares->blocks[index].capacity;
        if (capacity >= size && capacity / 8 <= size && (best < 0 || capacity < spares->blocks[best].capacity)) {
            best = index;
        }
    }
    if (best < 0) {
        return (Block){NULL, 0};
    }
    Block block = spares->blocks[best];
    spares->blocks[best] = spares->blocks[--spares->count];
    spares->bytes -= block.capacity;
    return block;
}

static void
spares_free(Spares *spares)
{
    while (spares->count > 0) {
        PyMem_RawFree(spares->blocks[--spares->count].data);
    }
    spares->bytes = 0;
}

/* --- raising --- */

typedef struct {
    Spares spares;
    PyObject *invalid_record;
    PyObject *consumer_record; /* both from consumed.py, once they are needed */
    PyObject *timestamp_types;
    PyObject *memory_type;
    PyObject *column_builder_type;
    PyObject *row_encoder_type;
} State;

static PyObject *
raise_fault(const State *state, const Fault *fault)
{
    PyObject *invalid = state->invalid_record;
    long long first = fault->first, second = fault->second;
    switch (fault->kind) {
    case CUT_SHORT:
        PyErr_SetString(invalid, "Incorrect declared batch size, premature EOF reached");
        break;
    case LEFT_OVER:
        PyErr_Format(invalid, "Incorrect declared batch size, %lld bytes remain after the last record", first);
        break;
    case WRONG_SIZE:
        PyErr_Format(invalid, "Invalid record size: expected to read %lld bytes in record payload, but read %lld",
                     first, second);
        break;
    case VARINT_TOO_LONG:
        PyErr_SetString(invalid, "Varint is too long, the most significant bit in the 5th byte is set");
        break;
    case VARLONG_TOO_LONG:
        PyErr_SetString(invalid, "Varlong is too long, most significant bit in the 10th byte is set");
        break;
    case BAD_RECORD_COUNT:
        PyErr_Format(invalid, "Found invalid record count %lld in magic v2 batch", first);
        break;
    case BAD_HEADER_COUNT:
        PyErr_Format(invalid, "Found invalid number of record headers %lld", first);
        break;
    case TOO_MANY_HEADERS:
        PyErr_Format(invalid, "Found invalid number of record headers. %lld is larger than the remaining size", first);
        break;
    case BAD_HEADER_NAME_SIZE:
        PyErr_Format(invalid, "Invalid negative header key size %lld", first);
        break;
    case COLUMN_FULL:
        PyErr_SetString(PyExc_OverflowError, "a column holds at most 2 GiB: finish it and begin another");
        break;
    case BAD_COLUMN:
        PyErr_Format(PyExc_ValueError, "the offsets of a column lead out of its data at row %lld", first);
        break;
    case BAD_HEADER_NAME:
        PyErr_Format(PyExc_ValueError, "row %lld has a header whose name is null or not UTF-8", first);
        break;
    case BAD_ROW:
        PyErr_Format(PyExc_IndexError, "there is no row %lld", first);
        break;
    case RECORD_TOO_LARGE:
        PyErr_Format(PyExc_ValueError, "a record of %lld bytes is larger than the format can say", first);
        break;
    case OUT_OF_MEMORY:
        PyErr_NoMemory();
        break;
    case NO_FAULT:
        Py_UNREACHABLE();
    }
    return NULL;
}

static int
get_int64(PyObject *object, int64_t *value)
{
    *value = PyLong_AsLongLong(object);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

/* --- decode_records (consumed.py) --- */

/* In the order of ConsumerRecord's fields. */
enum {
    TOPIC,
    PARTITION,
    OFFSET,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    KEY,
    VALUE,
    HEADERS,
    LEADER_EPOCH,
    KEY_SIZE,
    VALUE_SIZE,
    DELIVERY_COUNT,
    FIELD_COUNT,
};

static int
load_consumer_record(State *state)
{
    if (state->consumer_record != NULL) {
        return 0;
    }
    PyObject *module = PyImport_ImportModule("ottla.records.consumed");
    if (module == NULL) {
        return -1;
    }
    PyObject *type = PyObject_GetAttrString(module, "ConsumerRecord");
    PyObject *timestamp_types = PyObject_GetAttrString(module, "TIMESTAMP_TYPES");
    Py_DECREF(module);
    if (type == NULL || timestamp_types == NULL) {
        goto fail;
    }
    /* A tuple with names and nothing else, so that its items can be put in place as a tuple's are. */
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, &PyTuple_Type) ||
        ((PyTypeObject *)type)->tp_basicsize != PyTuple_Type.tp_basicsize ||
        ((PyTypeObject *)type)->tp_dictoffset != 0 || !PyTuple_Check(timestamp_types) ||
        PyTuple_GET_SIZE(timestamp_types) != 2) {
        PyErr_SetString(PyExc_SystemError, "ottla.records.consumed is not the one that native.c was written for");
        goto fail;
    }
    state->consumer_record = type;
    state->timestamp_types = timestamp_types;
    return 0;

fail:
    Py_XDECREF(type);
    Py_XDECREF(timestamp_types);
    return -1;
}

/* A record whose fields are to be put in place, every one of them. */
static inline PyObject *
new_record(const State *state)
{
    PyTypeObject *type = (PyTypeObject *)state->consumer_record;
    PyObject *record = type->tp_alloc(type, FIELD_COUNT);
#if PY_VERSION_HEX >= 0x030E0000
    if (record != NULL) {
        ((PyTupleObject *)record)->ob_hash = -1; /* no hash is known yet */
    }
#endif
    return record;
}

static inline PyObject *
optional_bytes(const uint8_t *data, int64_t size)
{
    if (size < 0) {
        return Py_NewRef(Py_None);
    }
    return PyBytes_FromStringAndSize((const char *)data, size);
}

static PyObject *
decoded_headers(const RawRecord *record, const uint8_t *end)
{
    PyObject *headers = PyTuple_New(record->header_count);
    if (headers == NULL) {
        return NULL;
    }
    Reader reader = {record->headers, end, {NO_FAULT, 0, 0}};
    for (int64_t index = 0; index < record->header_count; index++) {
        RawHeader header;
        if (read_header(&reader, &header) < 0) {
            Py_UNREACHABLE(); /* it was read over before */
        }
        PyObject *name = PyUnicode_DecodeUTF8((const char *)header.name, header.name_size, "replace");
        PyObject *value = optional_bytes(header.value, header.value_size);
        PyObject *pair = name == NULL || value == NULL ? NULL : PyTuple_Pack(2, name, value);
        Py_XDECREF(name);
        Py_XDECREF(value);
        if (pair == NULL) {
            Py_DECREF(headers);
            return NULL;
        }
        PyTuple_SET_ITEM(headers, index, pair);
    }
    return headers;
}

/* What all records of a section share: borrowed references. */
typedef struct {
    PyObject *topic;
    PyObject *partition;
    PyObject *leader_epoch;
    PyObject *delivery_count;
    PyObject *timestamp_type;
    PyObject *append_time; /* None where each record has its own timestamp */
    PyObject *no_headers;
    int64_t base_timestamp;
} Shared;

static PyObject *
decoded_record(const State *state, const Shared *shared, const RawRecord *raw, int64_t offset, const uint8_t *end)
{
    PyObject *record = new_record(state);
    if (record == NULL) {
        return NULL;
    }
    PyObject **fields = ((PyTupleObject *)record)->ob_item;
    fields[TOPIC] = Py_NewRef(shared->topic);
    fields[PARTITION] = Py_NewRef(shared->partition);
    fields[OFFSET] = PyLong_FromLongLong(offset);
    fields[TIMESTAMP] = shared->append_time != Py_None
                            ? Py_NewRef(shared->append_time)
                            : PyLong_FromLongLong(wrapping_sum(shared->base_timestamp, raw->timestamp_delta));
    fields[TIMESTAMP_TYPE] = Py_NewRef(shared->timestamp_type);
    fields[KEY] = optional_bytes(raw->key, raw->key_size);
    fields[VALUE] = optional_bytes(raw->value, raw->value_size);
    fields[HEADERS] = raw->header_count == 0 ? Py_NewRef(shared->no_headers) : decoded_headers(raw, end);
    fields[LEADER_EPOCH] = Py_NewRef(shared->leader_epoch);
    fields[KEY_SIZE] = PyLong_FromLongLong(raw->key_size < 0 ? -1 : raw->key_size);
    fields[VALUE_SIZE] = PyLong_FromLongLong(raw->value_size < 0 ? -1 : raw->value_size);
    fields[DELIVERY_COUNT] = Py_NewRef(shared->delivery_count);
    for (int index = 0; index < FIELD_COUNT; index++) {
        if (fields[index] == NULL) {
            Py_DECREF(record);
            return NULL;
        }
    }
    /* It holds numbers, text and bytes, which lead nowhere: the collector need not look at it again and again. */
    PyObject_GC_UnTrack(record);
    return record;
}

static PyObject *
decode_section(const State *state, const Shared *shared, const Span *section, int64_t count, int64_t base_offset,
               int64_t start_offset)
{
    Reader reader = {section->data, section->data + section->size, {NO_FAULT, 0, 0}};
    if (count < 0) {
        failed(&reader, BAD_RECORD_COUNT, count, 0);
        return raise_fault(state, &reader.fault);
    }
    PyObject *records = PyList_New(0);
    if (records == NULL || count == 0) {
        return records;
    }
    for (int64_t index = 0; index < count; index++) {
        RawRecord raw;
        if (read_record(&reader, &raw) < 0) {
            goto refuse;
        }
        int64_t offset = wrapping_sum(base_offset, raw.offset_delta);
        if (offset < start_offset) {
            continue;
        }
        PyObject *record = decoded_record(state, shared, &raw, offset, reader.end);
        if (record == NULL) {
            goto fail;
        }
        int result = PyList_Append(records, record);
        Py_DECREF(record);
        if (result < 0) {
            goto fail;
        }
    }
    if (reader.at != reader.end) {
        failed(&reader, LEFT_OVER, reader.end - reader.at, 0);
        goto refuse;
    }
    return records;

refuse:
    raise_fault(state, &reader.fault);
fail:
    Py_DECREF(records);
    return NULL;
}

PyDoc_STRVAR(decode_records_doc,
"decode_records(section, count, base_offset, base_timestamp, append_time, topic, partition, leader_epoch,\n"
"               start_offset, delivery_count, /)\n--\n\n"
"The records of a section from `start_offset` on, as a list of ConsumerRecord.");

static PyObject *
decode_records(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    State *state = PyModule_GetState(module);
    if (arg_count != 9 && arg_count != 10) {
        return PyErr_Format(PyExc_TypeError, "decode_records takes 9 or 10 arguments, not %zd", arg_count);
    }
    int64_t count, base_offset, start_offset, append_time;
    Shared shared = {.topic = args[5], .partition = args[6], .append_time = args[4], .leader_epoch = args[7]};
    shared.delivery_count = arg_count == 10 ? args[9] : Py_None;
    if (get_int64(args[1], &count) < 0 || get_int64(args[2], &base_offset) < 0 ||
        get_int64(args[3], &shared.base_timestamp) < 0 || get_int64(args[8], &start_offset) < 0 ||
        (args[4] != Py_None && get_int64(args[4], &append_time) < 0) || load_consumer_record(state) < 0) {
        return NULL;
    }
    shared.timestamp_type = PyTuple_GET_ITEM(state->timestamp_types, shared.append_time != Py_None);
    Span section;
    if (open_span(args[0], &section) < 0) {
        return NULL;
    }
    if (section.size < 0) {
        PyErr_SetString(PyExc_TypeError, "a section of records is bytes, not None");
        return NULL;
    }
    shared.no_headers = PyTuple_New(0);
    PyObject *records = shared.no_headers == NULL
                            ? NULL
                            : decode_section(state, &shared, &section, count, base_offset, start_offset);
    Py_XDECREF(shared.no_headers);
    close_span(&section);
    return records;
}

PyDoc_STRVAR(with_content_doc,
"with_content(record, key, value, /)\n--\n\n"
"The record with another key and value: what deserializers made of its bytes.");

static PyObject *
with_content(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    State *state = PyModule_GetState(module);
    if (arg_count != 3) {
        return PyErr_Format(PyExc_TypeError, "with_content takes 3 arguments, not %zd", arg_count);
    }
    if (load_consumer_record(state) < 0) {
        return NULL;
    }
    if (!Py_IS_TYPE(args[0], (PyTypeObject *)state->consumer_record) || PyTuple_GET_SIZE(args[0]) != FIELD_COUNT) {
        return PyErr_Format(PyExc_TypeError, "not a ConsumerRecord but %.100s", Py_TYPE(args[0])->tp_name);
    }
    PyObject *record = new_record(state);
    if (record == NULL) {
        return NULL;
    }
    PyObject **fields = ((PyTupleObject *)record)->ob_item;
    PyObject **given = ((PyTupleObject *)args[0])->ob_item;
    for (int index = 0; index < FIELD_COUNT; index++) {
        fields[index] = Py_NewRef(index == KEY ? args[1] : index == VALUE ? args[2] : given[index]);
    }
    return record;
}

/* --- memory that grows without the GIL, and that Python reads afterwards --- */

typedef struct {
    uint8_t *data;
    size_t size;
    size_t capacity;
} Heap;

/* Room for `more` bytes behind what is there. With `spares`, which needs the GIL, blocks come from there and go there. */
static int
heap_reserve(Heap *heap, size_t more, Spares *spares)
{
    if (more <= heap->capacity - heap->size) {
        return 0;
    }
    if (more > (size_t)PY_SSIZE_T_MAX / 2 - heap->size) {
        return -1;
    }
    size_t capacity = heap->capacity * 2;
    if (capacity < heap->size + more) {
        capacity = heap->size + more;
    }
    if (spares != NULL) {
        Block spare = spares_take(spares, capacity);
        if (spare.data != NULL) {
            if (heap->size > 0) {
                memcpy(spare.data, heap->data, heap->size);
            }
            spares_put(spares, heap->data, heap->capacity);
            heap->data = spare.data;
            heap->capacity = spare.capacity;
            return 0;
        }
    }
    uint8_t *data = PyMem_RawRealloc(heap->data, capacity);
    if (data == NULL) {
        return -1;
    }
    heap->data = data;
    heap->capacity = capacity;
    return 0;
}

static void
heap_free(Heap *heap)
{
    PyMem_RawFree(heap->data);
    *heap = (Heap){NULL, 0, 0};
}

static inline void
heap_put_int32(Heap *heap, int32_t value)
{
    memcpy(heap->data + heap->size, &value, sizeof value);
    heap->size += sizeof value;
}

static inline void
heap_put_int64(Heap *heap, int64_t value)
{
    memcpy(heap->data + heap->size, &value, sizeof value);
    heap->size += sizeof value;
}

/* Owns what was a heap. Python sees it through a memoryview. */
typedef struct {
    PyObject_HEAD
    uint8_t *data;
    Py_ssize_t size;
    size_t capacity;
} Memory;

static int
memory_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    Memory *memory = (Memory *)self;
    return PyBuffer_FillInfo(view, self, memory->data, memory->size, 1, flags);
}

static void
memory_dealloc(PyObject *self)
{
    Memory *memory = (Memory *)self;
    PyTypeObject *type = Py_TYPE(self);
    State *state = PyType_GetModuleState(type);
    spares_put(&state->spares, memory->data, memory->capacity);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, "Bytes that a ColumnBuilder or a RowEncoder filled."},
    {Py_tp_dealloc, memory_dealloc},
    {Py_bf_getbuffer, memory_getbuffer},
    {0, NULL},
};

static PyType_Spec memory_spec = {
    .name = "ottla.records.native.Memory",
    .basicsize = sizeof(Memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = memory_slots,
};

/* A view of what the heap holds; the heap is empty afterwards. */
static PyObject *
heap_release(const State *state, Heap *heap)
{
    Memory *memory = PyObject_New(Memory, (PyTypeObject *)state->memory_type);
    if (memory == NULL) {
        return NULL;
    }
    memory->data = heap->data;
    memory->size = (Py_ssize_t)heap->size;
    memory->capacity = heap->capacity;
    if (heap->capacity / 2 > heap->size || heap->capacity < SPARE_SIZE_MIN) {
        /* What was reserved and not used goes back. A smaller block may not be had: then the larger one will do. */
        size_t size = heap->size == 0 ? 1 : heap->size;
        uint8_t *data = PyMem_RawRealloc(heap->data, size);
        if (data != NULL) {
            memory->data = data;
            memory->capacity = size;
        }
    }
    *heap = (Heap){NULL, 0, 0};
    PyObject *view = PyMemoryView_FromObject((PyObject *)memory);
    Py_DECREF(memory);
    return view;
}

/* --- ColumnBuilder (columns.py): sections of records to the buffers of Arrow arrays --- */

/* Small fields are copied as a whole block, so that much room is kept behind a column's data. */
#define BLOCK 16

/* Arrow's layout of variable-size binary: `offsets` has one entry more than there are rows, and row i is
 * data[offsets[i]:offsets[i + 1]]; a row is null where its bit in `validity` is 0, the lowest bit first. Validity is
 * kept from the first null on: what it does not reach yet is valid. */
typedef struct {
    Heap offsets;
    Heap data;
    Heap validity;
    int64_t null_count;
} BinaryColumn;

static void
binary_free(BinaryColumn *column)
{
    heap_free(&column->offsets);
    heap_free(&column->data);
    heap_free(&column->validity);
    column->null_count = 0;
}

/* Room for `rows` more rows and `bytes` more bytes of data. */
static FaultKind
binary_reserve(BinaryColumn *column, size_t rows, size_t bytes, Spares *spares)
{
    if (bytes > (size_t)INT32_MAX - column->data.size) {
        return COLUMN_FULL;
    }
    if (heap_reserve(&column->offsets, (rows + 1) * sizeof(int32_t), spares) < 0 ||
        heap_reserve(&column->data, bytes + BLOCK, spares) < 0) {
        return OUT_OF_MEMORY;
    }
    if (column->offsets.size == 0) {
        heap_put_int32(&column->offsets, 0);
    }
    return NO_FAULT;
}

static int
binary_set_null(BinaryColumn *column, int64_t row)
{
    size_t byte = (size_t)row / 8;
    Heap *validity = &column->validity;
    if (byte >= validity->size) {
        size_t more = byte + 1 - validity->size;
        if (heap_reserve(validity, more, NULL) < 0) {
            return -1;
        }
        memset(validity->data + validity->size, 0xff, more);
        validity->size += more;
    }
    validity->data[byte] &= (uint8_t)~(1u << (row % 8));
    column->null_count++;
    return 0;
}

/* The next row, for which there is room. `readable` bytes may be read from `data` on. */
static inline int
binary_put(BinaryColumn *column, int64_t row, const uint8_t *data, int64_t size, int64_t readable)
{
    Heap *heap = &column->data;
    if (size < 0) {
        if (binary_set_null(column, row) < 0) {
            return -1;
        }
    }
    else if (size <= BLOCK && readable >= BLOCK) {
        memcpy(heap->data + heap->size, data, BLOCK);
        heap->size += (size_t)size;
    }
    else if (size > 0) {
        memcpy(heap->data + heap->size, data, (size_t)size);
        heap->size += (size_t)size;
    }
    heap_put_int32(&column->offsets, (int32_t)heap->size);
    return 0;
}

/* Where a column ended, to return to when a section turns out to be damaged. */
typedef struct {
    size_t offsets_size;
    size_t data_size;
    size_t validity_size;
    int64_t null_count;
} BinaryMark;

static BinaryMark
binary_mark(const BinaryColumn *column)
{
    return (BinaryMark){column->offsets.size, column->data.size, column->validity.size, column->null_count};
}

static void
binary_return_to(BinaryColumn *column, const BinaryMark *mark, int64_t rows)
{
    column->offsets.size = mark->offsets_size;
    column->data.size = mark->data_size;
    column->validity.size = mark->validity_size;
    column->null_count = mark->null_count;
    /* The last byte may have bits of rows that are no more. */
    if (mark->validity_size == (size_t)rows / 8 + 1) {
        column->validity.data[rows / 8] |= (uint8_t)(0xff << (rows % 8));
    }
}

/* The size of the UTF-8 character at `at`; where there is none, minus the bytes that are one replacement character in
 * Python's reading (the longest beginning of a character, or one byte). */
static int
utf8_character(const uint8_t *at, const uint8_t *end)
{
    uint8_t first = *at;
    uint8_t low = 0x80, high = 0xbf; /* the bounds of the second byte */
    int size;
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xc2 || first > 0xf4) {
        return -1;
    }
    if (first < 0xe0) {
        size = 2;
    }
    else if (first < 0xf0) {
        size = 3;
        low = first == 0xe0 ? 0xa0 : 0x80;  /* overlong forms */
        high = first == 0xed ? 0x9f : 0xbf; /* surrogates */
    }
    else {
        size = 4;
        low = first == 0xf0 ? 0x90 : 0x80;  /* overlong forms */
        high = first == 0xf4 ? 0x8f : 0xbf; /* beyond the last character */
    }
    for (int index = 1; index < size; index++) {
        if (at + index >= end || at[index] < low || at[index] > high) {
            return -index;
        }
        low = 0x80;
        high = 0xbf;
    }
    return size;
}

/* Append text that may not be UTF-8, with U+FFFD for what is not; there is room for three times its size. */
static void
put_replaced_utf8(Heap *heap, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        int size = utf8_character(at, end);
        if (size > 0) {
            memcpy(heap->data + heap->size, at, (size_t)size);
            heap->size += (size_t)size;
            at += size;
        }
        else {
            memcpy(heap->data + heap->size, "\xef\xbf\xbd", 3);
            heap->size += 3;
            at -= size;
        }
    }
}

typedef struct {
    PyObject_HEAD
    int is_busy; /* a thread decodes into the columns, and another must not */
    int has_offset, has_timestamp, has_key, has_value, has_headers;
    int64_t row_count;
    int64_t header_count;
    Heap offset;
    Heap timestamp;
    BinaryColumn key;
    BinaryColumn value;
    Heap header_lists; /* the list column's offsets: row i has the headers [i] to [i + 1] */
    BinaryColumn header_key;
    BinaryColumn header_value;
} ColumnBuilder;

typedef struct {
    int64_t row_count;
    int64_t header_count;
    size_t offset_size;
    size_t timestamp_size;
    size_t header_lists_size;
    BinaryMark key;
    BinaryMark value;
    BinaryMark header_key;
    BinaryMark header_value;
} BuilderMark;

static BuilderMark
builder_mark(const ColumnBuilder *builder)
{
    return (BuilderMark){
        .row_count = builder->row_count,
        .header_count = builder->header_count,
        .offset_size = builder->offset.size,
        .timestamp_size = builder->timestamp.size,
        .header_lists_size = builder->header_lists.size,
        .key = binary_mark(&builder->key),
        .value = binary_mark(&builder->value),
        .header_key = binary_mark(&builder->header_key),
        .header_value = binary_mark(&builder->header_value),
    };
}

static void
builder_return_to(ColumnBuilder *builder, const BuilderMark *mark)
{
    builder->row_count = mark->row_count;
    builder->header_count = mark->header_count;
    builder->offset.size = mark->offset_size;
    builder->timestamp.size = mark->timestamp_size;
    builder->header_lists.size = mark->header_lists_size;
    binary_return_to(&builder->key, &mark->key, mark->row_count);
    binary_return_to(&builder->value, &mark->value, mark->row_count);
    binary_return_to(&builder->header_key, &mark->header_key, mark->header_count);
    binary_return_to(&builder->header_value, &mark->header_value, mark->header_count);
}

/* Room for every row and every byte of a section, so that the loop need not ask again (but for headers). */
static FaultKind
builder_reserve(ColumnBuilder *builder, size_t rows, size_t bytes, Spares *spares)
{
    FaultKind kind = NO_FAULT;
    if ((builder->has_offset && heap_reserve(&builder->offset, rows * sizeof(int64_t), spares) < 0) ||
        (builder->has_timestamp && heap_reserve(&builder->timestamp, rows * sizeof(int64_t), spares) < 0)) {
        return OUT_OF_MEMORY;
    }
    if (builder->has_key && (kind = binary_reserve(&builder->key, rows, bytes, spares)) != NO_FAULT) {
        return kind;
    }
    if (builder->has_value && (kind = binary_reserve(&builder->value, rows, bytes, spares)) != NO_FAULT) {
        return kind;
    }
    if (builder->has_headers) {
        if (heap_reserve(&builder->header_lists, (rows + 1) * sizeof(int32_t), spares) < 0) {
            return OUT_OF_MEMORY;
        }
        if (builder->header_lists.size == 0) {
            heap_put_int32(&builder->header_lists, 0);
        }
    }
    return kind;
}

static int
builder_put_header(ColumnBuilder *builder, Reader *reader)
{
    RawHeader header;
    if (read_header(reader, &header) < 0) {
        return -1;
    }
    FaultKind kind = binary_reserve(&builder->header_key, 1, (size_t)header.name_size * 3, NULL);
    if (kind == NO_FAULT) {
        kind = binary_reserve(&builder->header_value, 1, header.value_size < 0 ? 0 : (size_t)header.value_size, NULL);
    }
    if (kind != NO_FAULT) {
        return failed(reader, kind, 0, 0);
    }
    put_replaced_utf8(&builder->header_key.data, header.name, header.name + header.name_size);
    heap_put_int32(&builder->header_key.offsets, (int32_t)builder->header_key.data.size);
    if (binary_put(&builder->header_value, builder->header_count, header.value, header.value_size,
                   reader->end - header.value) < 0) {
        return failed(reader, OUT_OF_MEMORY, 0, 0);
    }
    builder->header_count++;
    return 0;
}

static int
builder_put_headers(ColumnBuilder *builder, Reader *reader, const RawRecord *raw)
{
    Reader headers = {raw->headers, reader->end, {NO_FAULT, 0, 0}};
    for (int64_t index = 0; index < raw->header_count; index++) {
        if (builder_put_header(builder, &headers) < 0) {
            reader->fault = headers.fault;
            return -1;
        }
    }
    heap_put_int32(&builder->header_lists, (int32_t)builder->header_count);
    return 0;
}

typedef struct {
    int64_t count;
    int64_t base_offset;
    int64_t base_timestamp;
    int64_t append_time;
    int has_append_time;
    int64_t start_offset; /* records before it and from `end_offset` on are left out */
    int64_t end_offset;
} Section;

/* Room for what a section may hold at most. */
static int
builder_prepare(ColumnBuilder *builder, Reader *reader, const Section *section, Spares *spares)
{
    size_t bytes = (size_t)(reader->end - reader->at);
    size_t rows = bytes / RECORD_SIZE_MIN;
    if (rows > (size_t)section->count) {
        rows = (size_t)section->count;
    }
    FaultKind kind = builder_reserve(builder, rows, bytes, spares);
    return kind == NO_FAULT ? 0 : failed(reader, kind, 0, 0);
}

/* Runs without the GIL. */
static int
builder_read(ColumnBuilder *builder, Reader *reader, const Section *section)
{
    for (int64_t index = 0; index < section->count; index++) {
        RawRecord raw;
        if (read_record(reader, &raw) < 0) {
            return -1;
        }
        int64_t offset = wrapping_sum(section->base_offset, raw.offset_delta);
        if (offset < section->start_offset || offset >= section->end_offset) {
            continue;
        }
        if (builder->has_offset) {
            heap_put_int64(&builder->offset, offset);
        }
        if (builder->has_timestamp) {
            heap_put_int64(&builder->timestamp, section->has_append_time
                                                    ? section->append_time
                                                    : wrapping_sum(section->base_timestamp, raw.timestamp_delta));
        }
        if ((builder->has_key && binary_put(&builder->key, builder->row_count, raw.key, raw.key_size,
                                            reader->end - raw.key) < 0) ||
            (builder->has_value && binary_put(&builder->value, builder->row_count, raw.value, raw.value_size,
                                              reader->end - raw.value) < 0)) {
            return failed(reader, OUT_OF_MEMORY, 0, 0);
        }
        if (builder->has_headers && builder_put_headers(builder, reader, &raw) < 0) {
            return -1;
        }
        builder->row_count++;
    }
    if (reader->at != reader->end) {
        return failed(reader, LEFT_OVER, reader->end - reader->at, 0);
    }
    return 0;
}

static PyObject *
builder_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"offset", "timestamp", "key", "value", "headers", NULL};
    int offset = 1, timestamp = 1, key = 1, value = 1, headers = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$ppppp:ColumnBuilder", names, &offset, &timestamp, &key, &value,
                                     &headers)) {
        return NULL;
    }
    ColumnBuilder *builder = (ColumnBuilder *)type->tp_alloc(type, 0); /* all zero: every heap is empty */
    if (builder == NULL) {
        return NULL;
    }
    builder->has_offset = offset;
    builder->has_timestamp = timestamp;
    builder->has_key = key;
    builder->has_value = value;
    builder->has_headers = headers;
    return (PyObject *)builder;
}

static void
builder_dealloc(PyObject *self)
{
    ColumnBuilder *builder = (ColumnBuilder *)self;
    PyTypeObject *type = Py_TYPE(self);
    heap_free(&builder->offset);
    heap_free(&builder->timestamp);
    heap_free(&builder->header_lists);
    binary_free(&builder->key);
    binary_free(&builder->value);
    binary_free(&builder->header_key);
    binary_free(&builder->header_value);
    type->tp_free(self);
    Py_DECREF(type);
}

static int
builder_is_busy(const ColumnBuilder *builder)
{
    if (builder->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "another thread decodes into these columns");
    }
    return builder->is_busy;
}

PyDoc_STRVAR(builder_append_doc,
"append(section, count, base_offset, base_timestamp, append_time, start_offset, end_offset, /)\n--\n\n"
"Decode a section behind what is there; how many rows that brought.");

static PyObject *
builder_append(PyObject *self, PyObject *const *args, Py_ssize_t arg_count)
{
    ColumnBuilder *builder = (ColumnBuilder *)self;
    State *state = PyType_GetModuleState(Py_TYPE(self));
    if (arg_count < 5 || arg_count > 7) {
        return PyErr_Format(PyExc_TypeError, "append takes 5 to 7 arguments, not %zd", arg_count);
    }
    Section section = {.start_offset = INT64_MIN, .end_offset = INT64_MAX};
    section.has_append_time = args[4] != Py_None;
    if (get_int64(args[1], &section.count) < 0 || get_int64(args[2], &section.base_offset) < 0 ||
        get_int64(args[3], &section.base_timestamp) < 0 ||
        (section.has_append_time && get_int64(args[4], &section.append_time) < 0) ||
        (arg_count > 5 && get_int64(args[5], &section.start_offset) < 0) ||
        (arg_count > 6 && get_int64(args[6], &section.end_offset) < 0) || builder_is_busy(builder)) {
        return NULL;
    }
    Py_buffer held;
    if (PyObject_GetBuffer(args[0], &held, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Reader reader = {held.buf, (const uint8_t *)held.buf + held.len, {NO_FAULT, 0, 0}};
    BuilderMark mark = builder_mark(builder);
    int result = 0;
    if (section.count < 0) {
        result = failed(&reader, BAD_RECORD_COUNT, section.count, 0);
    }
    else if (section.count > 0 && (result = builder_prepare(builder, &reader, &section, &state->spares)) == 0) {
        builder->is_busy = 1;
        Py_BEGIN_ALLOW_THREADS
        result = builder_read(builder, &reader, &section);
        Py_END_ALLOW_THREADS
        builder->is_busy = 0;
    }
    PyBuffer_Release(&held);
    if (result < 0) {
        builder_return_to(builder, &mark);
        return raise_fault(state, &reader.fault);
    }
    return PyLong_FromLongLong(builder->row_count - mark.row_count);
}

/* (validity or None, offsets, data, null_count); the column is empty afterwards. */
static PyObject *
binary_release(const State *state, BinaryColumn *column, int64_t rows)
{
    PyObject *validity = NULL, *offsets = NULL, *data = NULL, *result = NULL;
    int64_t null_count = column->null_count;
    if (binary_reserve(column, 0, 0, NULL) == OUT_OF_MEMORY) { /* for the offset of no rows */
        return PyErr_NoMemory();
    }
    if (null_count == 0) {
        validity = Py_NewRef(Py_None);
    }
    else {
        Heap *bits = &column->validity;
        size_t size = ((size_t)rows + 7) / 8;
        if (heap_reserve(bits, size - bits->size, NULL) < 0) {
            return PyErr_NoMemory();
        }
        memset(bits->data + bits->size, 0xff, size - bits->size);
        bits->size = size;
        if (rows % 8 != 0) {
            bits->data[size - 1] &= (uint8_t)~(0xff << (rows % 8)); /* bits behind the last row are 0 */
        }
        validity = heap_release(state, bits);
    }
    offsets = heap_release(state, &column->offsets);
    data = heap_release(state, &column->data);
    if (validity != NULL && offsets != NULL && data != NULL) {
        result = Py_BuildValue("(OOOL)", validity, offsets, data, (long long)null_count);
    }
    Py_XDECREF(validity);
    Py_XDECREF(offsets);
    Py_XDECREF(data);
    binary_free(column);
    return result;
}

/* The six arguments of columns.Columns. */
static PyObject *
builder_release(const State *state, ColumnBuilder *builder)
{
    PyObject *fields = PyTuple_New(6);
    if (fields == NULL) {
        return NULL;
    }
    PyObject *items[6] = {NULL};
    items[0] = PyLong_FromLongLong(builder->row_count);
    items[1] = builder->has_offset ? heap_release(state, &builder->offset) : Py_NewRef(Py_None);
    items[2] = builder->has_timestamp ? heap_release(state, &builder->timestamp) : Py_NewRef(Py_None);
    items[3] = builder->has_key ? binary_release(state, &builder->key, builder->row_count) : Py_NewRef(Py_None);
    items[4] = builder->has_value ? binary_release(state, &builder->value, builder->row_count) : Py_NewRef(Py_None);
    if (!builder->has_headers) {
        items[5] = Py_NewRef(Py_None);
    }
    else if (builder_reserve(builder, 0, 0, NULL) == NO_FAULT) {
        items[5] = Py_BuildValue("(NNNL)", heap_release(state, &builder->header_lists),
                                 binary_release(state, &builder->header_key, builder->header_count),
                                 binary_release(state, &builder->header_value, builder->header_count),
                                 (long long)builder->header_count);
    }
    else {
        PyErr_NoMemory();
    }
    int is_whole = 1;
    for (int index = 0; index < 6; index++) {
        is_whole &= items[index] != NULL;
        PyTuple_SET_ITEM(fields, index, items[index]);
    }
    builder->row_count = builder->header_count = 0;
    if (!is_whole) {
        Py_CLEAR(fields);
    }
    return fields;
}

PyDoc_STRVAR(builder_finish_doc,
"finish()\n--\n\n"
"The columns, as columns.Columns; the builder is empty afterwards.");

static PyObject *
builder_finish(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ColumnBuilder *builder = (ColumnBuilder *)self;
    State *state = PyType_GetModuleState(Py_TYPE(self));
    if (builder_is_busy(builder)) {
        return NULL;
    }
    PyObject *module = PyImport_ImportModule("ottla.records.columns");
    if (module == NULL) {
        return NULL;
    }
    PyObject *make = PyObject_GetAttrString(module, "make_columns");
    Py_DECREF(module);
    if (make == NULL) {
        return NULL;
    }
    PyObject *fields = builder_release(state, builder);
    PyObject *columns = fields == NULL ? NULL : PyObject_CallObject(make, fields);
    Py_XDECREF(fields);
    Py_DECREF(make);
    return columns;
}

static Py_ssize_t
builder_length(PyObject *self)
{
    return (Py_ssize_t)((ColumnBuilder *)self)->row_count;
}

static PyObject *
builder_get_size(PyObject *self, void *Py_UNUSED(closure))
{
    const ColumnBuilder *builder = (ColumnBuilder *)self;
    return PyLong_FromSize_t(builder->key.data.size + builder->value.data.size + builder->header_key.data.size +
                             builder->header_value.data.size);
}

static PyMethodDef builder_methods[] = {
    {"append", (PyCFunction)(void (*)(void))builder_append, METH_FASTCALL, builder_append_doc},
    {"finish", builder_finish, METH_NOARGS, builder_finish_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef builder_properties[] = {
    {"data_size", builder_get_size, NULL, "The bytes of all keys, values and headers.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot builder_slots[] = {
    {Py_tp_doc, "ColumnBuilder(*, offset=True, timestamp=True, key=True, value=True, headers=True)\n--\n\n"
                "Arrow's buffers for the records of many sections."},
    {Py_tp_new, builder_new},
    {Py_tp_dealloc, builder_dealloc},
    {Py_tp_methods, builder_methods},
    {Py_tp_getset, builder_properties},
    {Py_sq_length, builder_length},
    {0, NULL},
};

static PyType_Spec builder_spec = {
    .name = "ottla.records.native.ColumnBuilder",
    .basicsize = sizeof(ColumnBuilder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = builder_slots,
};

/* --- RowEncoder (columns.py): Arrow's buffers to sections of records --- */

/* One column of someone's Arrow array, held through the buffer protocol. Its offsets are believed for no row before
 * they are compared with the data. */
typedef struct {
    Py_buffer validity; /* validity.obj is NULL where no row is null */
    Py_buffer offsets;
    Py_buffer data; /* of a list: empty, because what it lists lies in columns of its own */
    int64_t bit_offset;
    int64_t data_size;
} ColumnView;

static void
view_close(ColumnView *view)
{
    PyBuffer_Release(&view->validity); /* does nothing to what is not held */
    PyBuffer_Release(&view->offsets);
    PyBuffer_Release(&view->data);
}

static int
view_open(ColumnView *view, PyObject *validity, PyObject *bit_offset, PyObject *offsets, int64_t count)
{
    if (get_int64(bit_offset, &view->bit_offset) < 0 ||
        (validity != Py_None && PyObject_GetBuffer(validity, &view->validity, PyBUF_SIMPLE) < 0) ||
        PyObject_GetBuffer(offsets, &view->offsets, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    if (view->bit_offset < 0 || view->offsets.len / (Py_ssize_t)sizeof(int32_t) - 1 < count ||
        (validity != Py_None && (view->bit_offset > INT64_MAX - count ||
                                 view->bit_offset + count > (int64_t)view->validity.len * 8))) {
        PyErr_Format(PyExc_ValueError, "a column's buffers are too small for %lld rows", (long long)count);
        return -1;
    }
    return 0;
}

/* From (validity or None, bit_offset, offsets, data). */
static int
view_open_binary(ColumnView *view, PyObject *column, int64_t count)
{
    PyObject *validity, *bit_offset, *offsets, *data;
    if (!PyTuple_Check(column) || !PyArg_ParseTuple(column, "OOOO", &validity, &bit_offset, &offsets, &data)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "a column is a tuple of validity, bit offset, offsets and data");
        }
        return -1;
    }
    if (view_open(view, validity, bit_offset, offsets, count) < 0 ||
        PyObject_GetBuffer(data, &view->data, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    view->data_size = view->data.len;
    return 0;
}

/* Where the row lies in what the column lists; an end of -1 is null. */
static inline int
view_range(const ColumnView *view, int64_t row, int64_t *start, int64_t *end)
{
    if (view->validity.obj != NULL) {
        int64_t bit = view->bit_offset + row;
        if ((((const uint8_t *)view->validity.buf)[bit / 8] >> (bit % 8) & 1) == 0) {
            *start = 0;
            *end = -1;
            return 0;
        }
    }
    int32_t bounds[2];
    memcpy(bounds, (const uint8_t *)view->offsets.buf + row * (int64_t)sizeof(int32_t), sizeof bounds);
    *start = bounds[0];
    *end = bounds[1];
    return bounds[0] < 0 || bounds[1] < bounds[0] || bounds[1] > view->data_size ? -1 : 0;
}

static inline int
view_bytes(const ColumnView *view, int64_t row, const uint8_t **data, int64_t *size)
{
    int64_t start, end;
    if (view_range(view, row, &start, &end) < 0) {
        return -1;
    }
    *data = (const uint8_t *)view->data.buf + start;
    *size = end - start;
    return 0;
}

typedef struct {
    PyObject_HEAD
    int64_t count;
    Py_buffer timestamps; /* timestamps.obj is NULL where every row has the same */
    int64_t timestamp;
    int has_key, has_value, has_headers;
    ColumnView key;
    ColumnView value;
    ColumnView header_lists;
    ColumnView header_key;
    ColumnView header_value;
} RowEncoder;

static void
encoder_dealloc(PyObject *self)
{
    RowEncoder *encoder = (RowEncoder *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyBuffer_Release(&encoder->timestamps);
    view_close(&encoder->key);
    view_close(&encoder->value);
    view_close(&encoder->header_lists);
    view_close(&encoder->header_key);
    view_close(&encoder->header_value);
    type->tp_free(self);
    Py_DECREF(type);
}

/* From (validity or None, bit_offset, offsets, names, values, count): a column of lists of pairs. */
static int
encoder_open_headers(RowEncoder *encoder, PyObject *headers)
{
    PyObject *validity, *bit_offset, *offsets, *names, *values;
    long long count;
    if (!PyTuple_Check(headers) ||
        !PyArg_ParseTuple(headers, "OOOOOL", &validity, &bit_offset, &offsets, &names, &values, &count)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "headers are a tuple of validity, bit offset, offsets, two columns, count");
        }
        return -1;
    }
    if (count < 0) {
        PyErr_SetString(PyExc_ValueError, "a column has no fewer than 0 rows");
        return -1;
    }
    if (view_open(&encoder->header_lists, validity, bit_offset, offsets, encoder->count) < 0 ||
        view_open_binary(&encoder->header_key, names, count) < 0 ||
        view_open_binary(&encoder->header_value, values, count) < 0) {
        return -1;
    }
    encoder->header_lists.data_size = count;
    encoder->has_headers = 1;
    return 0;
}

static PyObject *
encoder_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"", "", "", "", "", NULL};
    PyObject *timestamps, *key, *value, *headers;
    long long count;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "LOOOO:RowEncoder", names, &count, &timestamps, &key, &value,
                                     &headers)) {
        return NULL;
    }
    if (count < 0 || count > INT32_MAX) {
        return PyErr_Format(PyExc_ValueError, "%lld is no number of rows", count);
    }
    RowEncoder *encoder = (RowEncoder *)type->tp_alloc(type, 0); /* all zero: no buffer is held */
    if (encoder == NULL) {
        return NULL;
    }
    encoder->count = count;
    if (PyLong_Check(timestamps)) {
        if (get_int64(timestamps, &encoder->timestamp) < 0) {
            goto fail;
        }
    }
    else {
        if (PyObject_GetBuffer(timestamps, &encoder->timestamps, PyBUF_SIMPLE) < 0) {
            goto fail;
        }
        if (encoder->timestamps.len / (Py_ssize_t)sizeof(int64_t) < count) {
            PyErr_Format(PyExc_ValueError, "a column's buffers are too small for %lld rows", count);
            goto fail;
        }
    }
    encoder->has_key = key != Py_None;
    encoder->has_value = value != Py_None;
    if ((encoder->has_key && view_open_binary(&encoder->key, key, count) < 0) ||
        (encoder->has_value && view_open_binary(&encoder->value, value, count) < 0) ||
        (headers != Py_None && encoder_open_headers(encoder, headers) < 0)) {
        goto fail;
    }
    return (PyObject *)encoder;

fail:
    Py_DECREF(encoder);
    return NULL;
}

static inline int64_t
encoder_timestamp(const RowEncoder *encoder, int64_t row)
{
    if (encoder->timestamps.obj == NULL) {
        return encoder->timestamp;
    }
    int64_t timestamp;
    memcpy(&timestamp, (const uint8_t *)encoder->timestamps.buf + row * (int64_t)sizeof timestamp, sizeof timestamp);
    return timestamp;
}

static int
is_utf8(const uint8_t *at, int64_t size)
{
    const uint8_t *end = at + size;
    while (at < end) {
        int character = utf8_character(at, end);
        if (character < 0) {
            return 0;
        }
        at += character;
    }
    return 1;
}

/* The size of the headers [start, end) without their count. */
static FaultKind
encoder_headers_size(const RowEncoder *encoder, int64_t start, int64_t end, int64_t *total)
{
    *total = 0;
    for (int64_t index = start; index < end; index++) {
        const uint8_t *name, *value;
        int64_t name_size, value_size;
        if (view_bytes(&encoder->header_key, index, &name, &name_size) < 0 ||
            view_bytes(&encoder->header_value, index, &value, &value_size) < 0) {
            return BAD_COLUMN;
        }
        if (name_size < 0 || !is_utf8(name, name_size)) {
            return BAD_HEADER_NAME;
        }
        *total += field_size(name_size) + field_size(value_size);
    }
    return NO_FAULT;
}

static uint8_t *
encoder_put_headers(const RowEncoder *encoder, uint8_t *at, int64_t start, int64_t end)
{
    at = put_varint(at, end - start);
    for (int64_t index = start; index < end; index++) {
        const uint8_t *data = NULL;
        int64_t size = -1;
        view_bytes(&encoder->header_key, index, &data, &size); /* both were checked when the size was computed */
        at = put_field(at, data, size);
        view_bytes(&encoder->header_value, index, &data, &size);
        at = put_field(at, data, size);
    }
    return at;
}

typedef struct {
    Heap heap;
    size_t size_max;
    int64_t base_timestamp;
    int64_t max_timestamp;
    int64_t record_count;
    Fault fault;
} Writing;

static int
write_failed(Writing *writing, FaultKind kind, int64_t first)
{
    writing->fault = (Fault){kind, first, 0};
    return -1;
}

/* One row as the next record: 1 when it was written, 0 when there is no room, -1 at a fault. */
static int
encoder_put_row(const RowEncoder *encoder, int64_t row, Writing *writing)
{
    const uint8_t *key = NULL, *value = NULL;
    int64_t key_size = -1, value_size = -1, headers_start = 0, headers_end = 0, headers_size = 0;
    if (row < 0 || row >= encoder->count) {
        return write_failed(writing, BAD_ROW, row);
    }
    if ((encoder->has_key && view_bytes(&encoder->key, row, &key, &key_size) < 0) ||
        (encoder->has_value && view_bytes(&encoder->value, row, &value, &value_size) < 0)) {
        return write_failed(writing, BAD_COLUMN, row);
    }
    if (encoder->has_headers) {
        if (view_range(&encoder->header_lists, row, &headers_start, &headers_end) < 0) {
            return write_failed(writing, BAD_COLUMN, row);
        }
        if (headers_end < headers_start) {
            headers_end = headers_start; /* a null list has no headers */
        }
        FaultKind kind = encoder_headers_size(encoder, headers_start, headers_end, &headers_size);
        if (kind != NO_FAULT) {
            return write_failed(writing, kind, row);
        }
    }
    int64_t timestamp = encoder_timestamp(encoder, row);
    if (writing->record_count == 0) {
        writing->base_timestamp = writing->max_timestamp = timestamp;
    }
    int64_t timestamp_delta = wrapping_sum(timestamp, (int64_t)-(uint64_t)writing->base_timestamp);
    int64_t body_size = 1 + varint_size(timestamp_delta) + varint_size(writing->record_count) + field_size(key_size) +
                        field_size(value_size) + varint_size(headers_end - headers_start) + headers_size;
    if (body_size > INT32_BYTES_MAX) {
        return write_failed(writing, RECORD_TOO_LARGE, body_size);
    }
    size_t size = (size_t)(varint_size(body_size) + body_size);
    /* A record that is too large for any batch is written alone, and the caller sees its size. */
    if (writing->record_count > 0 && writing->heap.size + size > writing->size_max) {
        return 0;
    }
    if (heap_reserve(&writing->heap, size, NULL) < 0) {
        return write_failed(writing, OUT_OF_MEMORY, 0);
    }
    uint8_t *at = writing->heap.data + writing->heap.size;
    at = put_varint(at, body_size);
    *at++ = 0; /* the attributes, of which no bit has a meaning yet */
    at = put_varint(at, timestamp_delta);
    at = put_varint(at, writing->record_count);
    at = put_field(at, key, key_size);
    at = put_field(at, value, value_size);
    if (headers_end == headers_start) {
        *at++ = 0;
    }
    else {
        at = encoder_put_headers(encoder, at, headers_start, headers_end);
    }
    writing->heap.size = (size_t)(at - writing->heap.data);
    writing->record_count++;
    if (timestamp > writing->max_timestamp) {
        writing->max_timestamp = timestamp;
    }
    return 1;
}

PyDoc_STRVAR(encoder_encode_doc,
"encode(rows, start, stop, size_max, /)\n--\n\n"
"A section of the rows from `start` on, as many as fit: (section, next, base_timestamp, max_timestamp).");

static PyObject *
encoder_encode(PyObject *self, PyObject *const *args, Py_ssize_t arg_count)
{
    const RowEncoder *encoder = (RowEncoder *)self;
    const State *state = PyType_GetModuleState(Py_TYPE(self));
    int64_t start, stop, size_max;
    if (arg_count != 4) {
        return PyErr_Format(PyExc_TypeError, "encode takes 4 arguments, not %zd", arg_count);
    }
    if (get_int64(args[1], &start) < 0 || get_int64(args[2], &stop) < 0 || get_int64(args[3], &size_max) < 0) {
        return NULL;
    }
    Py_buffer rows = {.obj = NULL};
    if (args[0] != Py_None && PyObject_GetBuffer(args[0], &rows, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    int64_t row_count = rows.obj == NULL ? encoder->count : rows.len / (Py_ssize_t)sizeof(int32_t);
    if (start < 0 || start >= stop || stop > row_count) {
        PyBuffer_Release(&rows);
        return PyErr_Format(PyExc_IndexError, "[%lld, %lld) is no range of %lld rows", (long long)start,
                            (long long)stop, (long long)row_count);
    }
    Writing writing = {.size_max = size_max < 0 ? 0 : (size_t)size_max};
    int result = 1;
    Py_BEGIN_ALLOW_THREADS
    /* Most batches are filled and small, and are then allocated once. */
    if (heap_reserve(&writing.heap, writing.size_max < 65536 ? writing.size_max : 65536, NULL) < 0) {
        result = write_failed(&writing, OUT_OF_MEMORY, 0);
    }
    while (result > 0 && start < stop) {
        int32_t row = (int32_t)start;
        if (rows.obj != NULL) {
            memcpy(&row, (const uint8_t *)rows.buf + start * (int64_t)sizeof row, sizeof row);
        }
        result = encoder_put_row(encoder, row, &writing);
        start += result > 0;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&rows);
    PyObject *section = result < 0 ? raise_fault(state, &writing.fault) : heap_release(state, &writing.heap);
    heap_free(&writing.heap);
    if (section == NULL) {
        return NULL;
    }
    return Py_BuildValue("(NLLL)", section, (long long)start, (long long)writing.base_timestamp,
                         (long long)writing.max_timestamp);
}

PyDoc_STRVAR(encoder_partitions_doc,
"partitions(partition_count, /)\n--\n\n"
"Each row's partition by its key, as int32; -1 where the key is null.");

static PyObject *
encoder_partitions(PyObject *self, PyObject *argument)
{
    const RowEncoder *encoder = (RowEncoder *)self;
    const State *state = PyType_GetModuleState(Py_TYPE(self));
    int64_t partition_count;
    if (get_int64(argument, &partition_count) < 0) {
        return NULL;
    }
    if (partition_count <= 0) {
        PyErr_SetString(PyExc_ZeroDivisionError, "a topic has at least one partition");
        return NULL;
    }
    Heap heap = {NULL, 0, 0};
    Fault fault = {NO_FAULT, 0, 0};
    Py_BEGIN_ALLOW_THREADS
    if (heap_reserve(&heap, (size_t)encoder->count * sizeof(int32_t), NULL) < 0) {
        fault.kind = OUT_OF_MEMORY;
    }
    for (int64_t row = 0; row < encoder->count && fault.kind == NO_FAULT; row++) {
        const uint8_t *key = NULL;
        int64_t size = -1;
        if (encoder->has_key && view_bytes(&encoder->key, row, &key, &size) < 0) {
            fault = (Fault){BAD_COLUMN, row, 0};
            break;
        }
        int64_t partition = -1;
        if (size >= 0) {
            partition = (int64_t)(murmur2_of(key, (size_t)size) & INT32_MAX) % partition_count;
        }
        heap_put_int32(&heap, (int32_t)partition);
    }
    Py_END_ALLOW_THREADS
    PyObject *result = fault.kind != NO_FAULT ? raise_fault(state, &fault) : heap_release(state, &heap);
    heap_free(&heap);
    return result;
}

static PyMethodDef encoder_methods[] = {
    {"encode", (PyCFunction)(void (*)(void))encoder_encode, METH_FASTCALL, encoder_encode_doc},
    {"partitions", encoder_partitions, METH_O, encoder_partitions_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot encoder_slots[] = {
    {Py_tp_doc, "RowEncoder(count, timestamps, key, value, headers, /)\n--\n\n"
                "Arrow's buffers, to be written as sections of records."},
    {Py_tp_new, encoder_new},
    {Py_tp_dealloc, encoder_dealloc},
    {Py_tp_methods, encoder_methods},
    {0, NULL},
};

static PyType_Spec encoder_spec = {
    .name = "ottla.records.native.RowEncoder",
    .basicsize = sizeof(RowEncoder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = encoder_slots,
};

/* --- group_rows (columns.py) --- */

/* Count the rows of each group into `starts`, which has one entry more than there are groups and becomes where each
 * group starts. The first row that has no group; -1 when each has one. */
static int64_t
count_groups(const Py_buffer *groups, int64_t count, int64_t group_count, int64_t *starts)
{
    memset(starts, 0, (size_t)(group_count + 1) * sizeof *starts);
    for (int64_t row = 0; row < count; row++) {
        int32_t group;
        memcpy(&group, (const uint8_t *)groups->buf + row * (int64_t)sizeof group, sizeof group);
        if (group < 0 || group >= group_count) {
            return row;
        }
        starts[group + 1]++;
    }
    for (int64_t group = 0; group < group_count; group++) {
        starts[group + 1] += starts[group];
    }
    return -1;
}

/* The rows, group by group, each group's in their order. `starts` becomes where each group ends. */
static void
sort_groups(const Py_buffer *groups, int64_t count, int64_t *starts, int32_t *rows)
{
    for (int64_t row = 0; row < count; row++) {
        int32_t group;
        memcpy(&group, (const uint8_t *)groups->buf + row * (int64_t)sizeof group, sizeof group);
        rows[starts[group]++] = (int32_t)row;
    }
}

PyDoc_STRVAR(group_rows_doc,
"group_rows(groups, group_count, /)\n--\n\n"
"The numbers of the rows, group by group, as int32, and where each group ends.");

static PyObject *
group_rows(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    const State *state = PyModule_GetState(module);
    int64_t group_count;
    if (arg_count != 2) {
        return PyErr_Format(PyExc_TypeError, "group_rows takes 2 arguments, not %zd", arg_count);
    }
    if (get_int64(args[1], &group_count) < 0) {
        return NULL;
    }
    if (group_count < 0 || group_count > INT32_MAX) {
        return PyErr_Format(PyExc_ValueError, "%lld is no number of groups", (long long)group_count);
    }
    Py_buffer groups;
    if (PyObject_GetBuffer(args[0], &groups, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    int64_t count = groups.len / (Py_ssize_t)sizeof(int32_t);
    PyObject *ends = NULL, *rows = NULL;
    Heap heap = {NULL, 0, 0};
    int64_t *starts = PyMem_RawMalloc((size_t)(group_count + 1) * sizeof *starts);
    if (starts == NULL || count > INT32_MAX || heap_reserve(&heap, (size_t)count * sizeof(int32_t) + 1, NULL) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    int64_t stray;
    Py_BEGIN_ALLOW_THREADS
    stray = count_groups(&groups, count, group_count, starts);
    if (stray < 0) {
        sort_groups(&groups, count, starts, (int32_t *)(void *)heap.data);
        heap.size = (size_t)count * sizeof(int32_t);
    }
    Py_END_ALLOW_THREADS
    if (stray >= 0) {
        PyErr_Format(PyExc_ValueError, "row %lld is in none of %lld groups", (long long)stray, (long long)group_count);
        goto done;
    }
    ends = PyList_New(group_count);
    for (int64_t group = 0; ends != NULL && group < group_count; group++) {
        PyObject *end = PyLong_FromLongLong(starts[group]);
        if (end == NULL) {
            Py_CLEAR(ends);
            break;
        }
        PyList_SET_ITEM(ends, group, end);
    }
    rows = ends == NULL ? NULL : heap_release(state, &heap);

done:
    PyMem_RawFree(starts);
    heap_free(&heap);
    PyBuffer_Release(&groups);
    if (rows == NULL) {
        Py_XDECREF(ends);
        return NULL;
    }
    return Py_BuildValue("(NN)", rows, ends);
}

/* --- the module --- */

static PyMethodDef functions[] = {
    {"append_record", (PyCFunction)(void (*)(void))append_record, METH_FASTCALL, append_record_doc},
    {"murmur2", murmur2, METH_O, murmur2_doc},
    {"partition_of", (PyCFunction)(void (*)(void))partition_of, METH_FASTCALL, partition_of_doc},
    {"decode_records", (PyCFunction)(void (*)(void))decode_records, METH_FASTCALL, decode_records_doc},
    {"with_content", (PyCFunction)(void (*)(void))with_content, METH_FASTCALL, with_content_doc},
    {"group_rows", (PyCFunction)(void (*)(void))group_rows, METH_FASTCALL, group_rows_doc},
    {NULL, NULL, 0, NULL},
};

static int
execute(PyObject *module)
{
    State *state = PyModule_GetState(module);
    PyObject *errors = PyImport_ImportModule("ottla.errors");
    if (errors == NULL) {
        return -1;
    }
    state->invalid_record = PyObject_GetAttrString(errors, "InvalidRecord");
    Py_DECREF(errors);
    state->memory_type = PyType_FromModuleAndSpec(module, &memory_spec, NULL);
    state->column_builder_type = PyType_FromModuleAndSpec(module, &builder_spec, NULL);
    state->row_encoder_type = PyType_FromModuleAndSpec(module, &encoder_spec, NULL);
    if (state->invalid_record == NULL || state->memory_type == NULL || state->column_builder_type == NULL ||
        state->row_encoder_type == NULL ||
        PyModule_AddType(module, (PyTypeObject *)state->column_builder_type) < 0 ||
        PyModule_AddType(module, (PyTypeObject *)state->row_encoder_type) < 0) {
        return -1;
    }
    return 0;
}

static int
traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->invalid_record);
    Py_VISIT(state->consumer_record);
    Py_VISIT(state->timestamp_types);
    Py_VISIT(state->memory_type);
    Py_VISIT(state->column_builder_type);
    Py_VISIT(state->row_encoder_type);
    return 0;
}

static int
clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->invalid_record);
    Py_CLEAR(state->consumer_record);
    Py_CLEAR(state->timestamp_types);
    Py_CLEAR(state->memory_type);
    Py_CLEAR(state->column_builder_type);
    Py_CLEAR(state->row_encoder_type);
    return 0;
}

static void
free_module(void *module)
{
    clear(module);
    spares_free(&((State *)PyModule_GetState(module))->spares);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "ottla.records.native",
    .m_doc = "The loops that touch every record, in C; ottla.records.fast chooses between them and their twins.",
    .m_size = sizeof(State),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = free_module,
};

PyMODINIT_FUNC
PyInit_native(void)
{
    return PyModuleDef_Init(&definition);
}
