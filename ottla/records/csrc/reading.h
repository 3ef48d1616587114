/* Reading a section of records: the rules of decode.py, in its words.
 *
 * No byte is read before it is known to be inside the section, and no length is believed before it is compared with
 * what is left. Needs no GIL: a fault is noted in the reader, and raised by whoever holds the GIL.
 */

#ifndef OTTLA_READING_H
#define OTTLA_READING_H

#include "bytes.h"
#include "native.h"

/* The smallest record: its size, attributes, two deltas, a null key, a null value, no headers. */
#define RECORD_SIZE_MIN 7

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

static inline int
failed(Reader *reader, FaultKind kind, int64_t first, int64_t second)
{
    reader->fault = (Fault){kind, first, second};
    return -1;
}

/* A number of up to `size_max` bytes that begins with a byte of 0x80 or more. */
static inline int
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

static inline int
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

static inline int
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
        record->headers = ++reader->at;
    }
    else if (skip_headers(reader, record) < 0) {
        return -1;
    }
    if (reader->at - body != size) {
        return failed(reader, WRONG_SIZE, size, reader->at - body);
    }
    return 0;
}

#endif
