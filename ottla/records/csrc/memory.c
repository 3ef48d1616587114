/* See memory.h. */

#include "native.h"

static Block
spares_remove(Spares *spares, int index)
{
    Block block = spares->blocks[index];
    spares->count--;
    spares->bytes -= block.capacity;
    memmove(&spares->blocks[index], &spares->blocks[index + 1], (size_t)(spares->count - index) * sizeof block);
    return block;
}

static void
spares_put(Spares *spares, uint8_t *data, size_t capacity)
{
    if (capacity < SPARE_SIZE_MIN || capacity > SPARE_BYTES_MAX) {
        PyMem_RawFree(data);
        return;
    }
    while (spares->count == SPARE_COUNT_MAX || spares->bytes > SPARE_BYTES_MAX - capacity) {
        PyMem_RawFree(spares_remove(spares, 0).data); /* what has waited longest */
    }
    spares->blocks[spares->count++] = (Block){data, capacity};
    spares->bytes += capacity;
}

/* The smallest that holds `size` bytes, and of those the one that was used last, but none that would be mostly empty;
 * data is NULL where there is none. */
static Block
spares_take(Spares *spares, size_t size)
{
    int best = -1;
    for (int index = spares->count - 1; index >= 0; index--) {
        size_t capacity = spares->blocks[index].capacity;
        if (capacity >= size && capacity / 8 <= size && (best < 0 || capacity < spares->blocks[best].capacity)) {
            best = index;
        }
    }
    return best < 0 ? (Block){NULL, 0} : spares_remove(spares, best);
}

/* The size of a new block that has to hold `size` bytes: one of a few, so that it fits the next one, too. What is not
 * touched of it costs nothing. */
static size_t
block_size(size_t size)
{
    if (size < SPARE_SIZE_MIN || size > SPARE_BYTES_MAX) {
        return size;
    }
    size_t step = SPARE_SIZE_MIN / 4;
    while (step * 8 <= size) {
        step *= 2;
    }
    return (size + step - 1) / step * step; /* four sizes between a power of two and the next */
}

void
spares_free(Spares *spares)
{
    while (spares->count > 0) {
        PyMem_RawFree(spares->blocks[--spares->count].data);
    }
    spares->bytes = 0;
}

int
heap_grow(Heap *heap, size_t more, Spares *spares)
{
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
    capacity = block_size(capacity);
    uint8_t *data = PyMem_RawRealloc(heap->data, capacity);
    if (data == NULL) {
        return -1;
    }
    heap->data = data;
    heap->capacity = capacity;
    return 0;
}

void
heap_free(Heap *heap)
{
    PyMem_RawFree(heap->data);
    *heap = (Heap){NULL, 0, 0};
}

/* Owns what was a heap. Python sees it through a memoryview. */
typedef struct {
    PyObject_HEAD
    uint8_t *data;
    Py_ssize_t size;
    size_t capacity;
    int is_readonly;
} Memory;

static int
memory_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    Memory *memory = (Memory *)self;
    return PyBuffer_FillInfo(view, self, memory->data, memory->size, memory->is_readonly, flags);
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
    {Py_tp_doc, "Bytes that are seen through a memoryview; the block is used again when the last view is gone."},
    {Py_tp_dealloc, memory_dealloc},
    {Py_bf_getbuffer, memory_getbuffer},
    {0, NULL},
};

PyType_Spec memory_spec = {
    .name = "ottla.records.native.Memory",
    .basicsize = sizeof(Memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = memory_slots,
};

/* A view of the block, which is its own from then on; NULL with an exception, and the block is still the caller's. */
static PyObject *
view_of(const State *state, uint8_t *data, Py_ssize_t size, size_t capacity, int is_readonly)
{
    Memory *memory = PyObject_New(Memory, (PyTypeObject *)state->memory_type);
    if (memory == NULL) {
        return NULL;
    }
    memory->data = data;
    memory->size = size;
    memory->capacity = capacity;
    memory->is_readonly = is_readonly;
    PyObject *view = PyMemoryView_FromObject((PyObject *)memory);
    if (view == NULL) {
        memory->data = NULL;
        memory->capacity = 0;
    }
    Py_DECREF(memory);
    return view;
}

static PyObject *
release(State *state, Heap *heap, int is_readonly)
{
    if (heap->data == NULL || heap->capacity / 2 > heap->size) {
        /* A block that is mostly empty is better used by another. A smaller one may not be had: then it has to do. */
        size_t size = heap->size == 0 ? 1 : heap->size;
        uint8_t *data = PyMem_RawMalloc(size);
        if (data != NULL) {
            if (heap->size > 0) {
                memcpy(data, heap->data, heap->size);
            }
            spares_put(&state->spares, heap->data, heap->capacity);
            heap->data = data;
            heap->capacity = size;
        }
    }
    PyObject *view = view_of(state, heap->data, (Py_ssize_t)heap->size, heap->capacity, is_readonly);
    if (view != NULL) {
        *heap = (Heap){NULL, 0, 0};
    }
    return view;
}

PyObject *
heap_release(State *state, Heap *heap)
{
    return release(state, heap, 1);
}

PyObject *
heap_release_writable(State *state, Heap *heap)
{
    return release(state, heap, 0);
}

PyDoc_STRVAR(take_memory_doc,
"take_memory(size, /)\n--\n\n"
"A writable memoryview of so many bytes, whose content is whatever it was last used for.");

static PyObject *
take_memory(PyObject *module, PyObject *argument)
{
    State *state = PyModule_GetState(module);
    Py_ssize_t size = PyLong_AsSsize_t(argument);
    if (size == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (size < 0) {
        PyErr_SetString(PyExc_ValueError, "negative count");
        return NULL;
    }
    Block block = spares_take(&state->spares, (size_t)size);
    if (block.data == NULL) {
        /* Cleared: what was never used may hold what someone else in this process has let go of. */
        size_t capacity = block_size((size_t)size);
        block = (Block){PyMem_RawCalloc(1, capacity == 0 ? 1 : capacity), capacity};
        if (block.data == NULL) {
            return PyErr_NoMemory();
        }
    }
    PyObject *view = view_of(state, block.data, size, block.capacity, 0);
    if (view == NULL) {
        spares_put(&state->spares, block.data, block.capacity);
    }
    return view;
}

PyMethodDef memory_functions[] = {
    {"take_memory", take_memory, METH_O, take_memory_doc},
    {NULL, NULL, 0, NULL},
};
