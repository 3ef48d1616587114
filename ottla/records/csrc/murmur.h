/* murmur2: Kafka's hash of a key (murmur.py). */

#ifndef OTTLA_MURMUR_H
#define OTTLA_MURMUR_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t
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

#endif
