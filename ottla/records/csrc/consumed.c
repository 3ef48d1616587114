/* decode_records: a section of records to a list of ConsumerRecord (consumed.py). */

#include "native.h"

#include "reading.h"

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
        PyErr_SetString(PyExc_SystemError, "ottla.records.consumed is not the one that this module was written for");
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

PyMethodDef consumed_functions[] = {
    {"decode_records", (PyCFunction)(void (*)(void))decode_records, METH_FASTCALL, decode_records_doc},
    {"with_content", (PyCFunction)(void (*)(void))with_content, METH_FASTCALL, with_content_doc},
    {NULL, NULL, 0, NULL},
};
