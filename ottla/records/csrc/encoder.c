/* RowEncoder and group_rows: Arrow's buffers to sections of records, partition by partition (columns.py). */

#include "native.h"

#include "bytes.h"
#include "murmur.h"

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

/* Room for a whole section is taken at once up to this size; larger ones grow. */
#define SECTION_ROOM_MAX (1 << 20)
#define HEAD_SIZE_MAX (1 << 16)

PyDoc_STRVAR(encoder_encode_doc,
"encode(rows, start, stop, size_max, head_size, /)\n--\n\n"
"A section of the rows from `start` on, as many as fit: (section, next, base_timestamp, max_timestamp).");

static PyObject *
encoder_encode(PyObject *self, PyObject *const *args, Py_ssize_t arg_count)
{
    const RowEncoder *encoder = (RowEncoder *)self;
    State *state = PyType_GetModuleState(Py_TYPE(self));
    int64_t start, stop, size_max, head_size = 0;
    if (arg_count != 4 && arg_count != 5) {
        return PyErr_Format(PyExc_TypeError, "encode takes 4 or 5 arguments, not %zd", arg_count);
    }
    if (get_int64(args[1], &start) < 0 || get_int64(args[2], &stop) < 0 || get_int64(args[3], &size_max) < 0 ||
        (arg_count == 5 && get_int64(args[4], &head_size) < 0)) {
        return NULL;
    }
    if (head_size < 0 || head_size > HEAD_SIZE_MAX) {
        return PyErr_Format(PyExc_ValueError, "%lld is no size of a head", (long long)head_size);
    }
    if (size_max < 0 || size_max > INT32_MAX) {
        size_max = size_max < 0 ? 0 : INT32_MAX;
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
    Writing writing = {.size_max = (size_t)(size_max + head_size)};
    int result = 1;
    /* Most sections are filled, and are then allocated once. */
    if (heap_reserve(&writing.heap, (size_t)head_size + (size_t)(size_max < SECTION_ROOM_MAX ? size_max : SECTION_ROOM_MAX),
                     &state->spares) < 0) {
        result = write_failed(&writing, OUT_OF_MEMORY, 0);
    }
    Py_BEGIN_ALLOW_THREADS
    if (result > 0 && head_size > 0) {
        memset(writing.heap.data, 0, (size_t)head_size);
        writing.heap.size = (size_t)head_size;
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
    PyObject *section = result < 0 ? raise_fault(state, &writing.fault) : heap_release_writable(state, &writing.heap);
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
    State *state = PyType_GetModuleState(Py_TYPE(self));
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

PyType_Spec row_encoder_spec = {
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
    State *state = PyModule_GetState(module);
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

PyMethodDef row_functions[] = {
    {"group_rows", (PyCFunction)(void (*)(void))group_rows, METH_FASTCALL, group_rows_doc},
    {NULL, NULL, 0, NULL},
};
