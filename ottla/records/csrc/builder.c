/* ColumnBuilder: sections of records to the buffers of Arrow arrays (columns.py). */

#include "native.h"

#include "reading.h"

/* Small fields are copied as a whole block, so that much room is kept behind a column's data. */
#define BLOCK 16
#define VALIDITY_STEP 64
#define EXPECTED_MAX (1 << 30)

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

/* Let validity reach the row: a few rows further than that, so that this is not asked for each of them. */
static int
binary_extend_validity(BinaryColumn *column, int64_t row)
{
    Heap *validity = &column->validity;
    size_t more = (size_t)row / 8 + VALIDITY_STEP - validity->size;
    if (heap_reserve(validity, more, NULL) < 0) {
        return -1;
    }
    memset(validity->data + validity->size, 0xff, more);
    validity->size += more;
    return 0;
}

static inline int
binary_set_null(BinaryColumn *column, int64_t row)
{
    size_t byte = (size_t)row / 8;
    if (byte >= column->validity.size && binary_extend_validity(column, row) < 0) {
        return -1;
    }
    column->validity.data[byte] &= (uint8_t)~(1u << (row % 8));
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
    /* Bits of rows that are no more are set again. */
    size_t byte = (size_t)rows / 8;
    if (byte < mark->validity_size) {
        column->validity.data[byte] |= (uint8_t)(0xff << (rows % 8));
        memset(column->validity.data + byte + 1, 0xff, mark->validity_size - byte - 1);
    }
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

PyDoc_STRVAR(builder_expect_doc,
"expect(rows, value_bytes, /)\n--\n\n"
"Make room for so many more rows and bytes of values.");

static PyObject *
builder_expect(PyObject *self, PyObject *const *args, Py_ssize_t arg_count)
{
    ColumnBuilder *builder = (ColumnBuilder *)self;
    State *state = PyType_GetModuleState(Py_TYPE(self));
    int64_t rows, bytes;
    if (arg_count != 2) {
        return PyErr_Format(PyExc_TypeError, "expect takes 2 arguments, not %zd", arg_count);
    }
    if (get_int64(args[0], &rows) < 0 || get_int64(args[1], &bytes) < 0 || builder_is_busy(builder)) {
        return NULL;
    }
    if (rows < 0 || rows > EXPECTED_MAX || bytes < 0 || bytes > EXPECTED_MAX) {
        return PyErr_Format(PyExc_ValueError, "%lld rows with %lld bytes cannot be expected", (long long)rows,
                            (long long)bytes);
    }
    FaultKind kind = builder_reserve(builder, (size_t)rows, 0, &state->spares);
    if (kind == NO_FAULT && builder->has_value) {
        kind = binary_reserve(&builder->value, (size_t)rows, (size_t)bytes, &state->spares);
    }
    if (kind != NO_FAULT) {
        Fault fault = {kind, 0, 0};
        return raise_fault(state, &fault);
    }
    Py_RETURN_NONE;
}

/* (validity or None, offsets, data, null_count); the column is empty afterwards. */
static PyObject *
binary_release(State *state, BinaryColumn *column, int64_t rows)
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
        if (bits->size < size) {
            if (heap_reserve(bits, size - bits->size, NULL) < 0) {
                return PyErr_NoMemory();
            }
            memset(bits->data + bits->size, 0xff, size - bits->size);
        }
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
builder_release(State *state, ColumnBuilder *builder)
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
    {"expect", (PyCFunction)(void (*)(void))builder_expect, METH_FASTCALL, builder_expect_doc},
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

PyType_Spec column_builder_spec = {
    .name = "ottla.records.native.ColumnBuilder",
    .basicsize = sizeof(ColumnBuilder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = builder_slots,
};
