/* Memory that grows without the GIL, and that Python reads afterwards. */

#ifndef OTTLA_MEMORY_H
#define OTTLA_MEMORY_H

#include <Python.h>

#include <stdint.h>
#include <string.h>

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
    Block blocks[SPARE_COUNT_MAX]; /* in the order in which they came */
    int count;
    size_t bytes;
} Spares;

/* Give them all back. */
void spares_free(Spares *spares);

/* Bytes in the making. All zero is an empty one. */
typedef struct {
    uint8_t *data;
    size_t size;
    size_t capacity;
} Heap;

/* Room for `more` bytes behind what is there; -1 where there is none to be had. With `spares`, which needs the GIL,
 * blocks come from there and go there. */
int heap_grow(Heap *heap, size_t more, Spares *spares);

static inline int
heap_reserve(Heap *heap, size_t more, Spares *spares)
{
    return more <= heap->capacity - heap->size ? 0 : heap_grow(heap, more, spares);
}

void heap_free(Heap *heap);

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

#endif
