/* Varints, nullable fields of bytes, UTF-8: the letters in which records are written. */

#ifndef OTTLA_BYTES_H
#define OTTLA_BYTES_H

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

/* --- nullable fields: a size, of which -1 is null, and as many bytes --- */

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

/* --- arithmetic --- */

/* The sum as Java's `long` has it. */
static inline int64_t
wrapping_sum(int64_t left, int64_t right)
{
    return (int64_t)((uint64_t)left + (uint64_t)right);
}

/* --- UTF-8 --- */

/* The size of the UTF-8 character at `at`; where there is none, minus the bytes that are one replacement character in
 * Python's reading (the longest beginning of a character, or one byte). */
static inline int
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

static inline int
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

#endif
