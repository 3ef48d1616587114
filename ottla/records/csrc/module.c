/* The compiled module `ottla.records.native`: see native.h. */

#include "native.h"

PyObject *
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
    state->column_builder_type = PyType_FromModuleAndSpec(module, &column_builder_spec, NULL);
    state->row_encoder_type = PyType_FromModuleAndSpec(module, &row_encoder_spec, NULL);
    if (state->invalid_record == NULL || state->memory_type == NULL || state->column_builder_type == NULL ||
        state->row_encoder_type == NULL ||
        PyModule_AddType(module, (PyTypeObject *)state->column_builder_type) < 0 ||
        PyModule_AddType(module, (PyTypeObject *)state->row_encoder_type) < 0) {
        return -1;
    }
    PyMethodDef *parts[] = {memory_functions, append_functions, murmur_functions, consumed_functions, row_functions};
    for (size_t index = 0; index < Py_ARRAY_LENGTH(parts); index++) {
        if (PyModule_AddFunctions(module, parts[index]) < 0) {
            return -1;
        }
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
