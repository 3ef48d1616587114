/* See memory.h. */

#include "native.h"

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

PyType_Spec memory_spec = {
    .name = "ottla.records.native.Memory",
    .basicsize = sizeof(Memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = memory_slots,
};

/* A view of what the heap holds; the heap is empty afterwards. */
PyObject *
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
