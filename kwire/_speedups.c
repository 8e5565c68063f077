/* The loops over records that take most of a consumer's time, in C.

   Contract: what is found, inflated and read here is what `kwire/protocol/record_batch.py`, `compression.py` and
   `record_fields.py` find, inflate and read; what is made here is what `kwire/fetching/partition_records.py` and
   `arrow.py` make. They are complete without this module, and `kwire/speedups.py` decides whether it is used. Bytes that
   are not sound are refused without a word: Python reads them again, and says what is wrong. No byte outside of a buffer
   is touched, whatever the buffers hold.

   Only the stable part of Python's API is used (setup.py sets Py_LIMITED_API), so one binary serves Python 3.11 and all
   later ones, but for those without the interpreter's lock, which have their own. */

#include <Python.h>

#include <stdint.h>
#include <string.h>
#ifdef _WIN32
#include <process.h>
#define getpid _getpid
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

/* For what has to keep its place in registers. */
#ifdef __GNUC__
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE inline
#endif

#ifndef Py_GIL_DISABLED
#undef Py_BEGIN_CRITICAL_SECTION
#undef Py_END_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

/* From Python 3.12 on None, small numbers and many names are not counted, and each version marks them in its own way.
   What is compiled with the headers of another one would count them up with each record, and never down: 3.14 ends where
   a name was counted up a billion times. So the functions count, which do what the running Python does. */
#ifdef Py_LIMITED_API
static inline PyObject *
new_reference(PyObject *object)
{
    if (Py_Version >= 0x030C0000) {
        Py_IncRef(object);
    }
    else {
        Py_XINCREF(object);
    }
    return object;
}

#undef Py_NewRef
#undef Py_XNewRef
#undef Py_DECREF
#undef Py_XDECREF
#define Py_NewRef(object) new_reference((PyObject *)(object))
#define Py_XNewRef(object) new_reference((PyObject *)(object))
#define Py_DECREF(object) Py_DecRef((PyObject *)(object))
#define Py_XDECREF(object) Py_DecRef((PyObject *)(object))
#endif

/* What a function answers that fills buffers: None, or this error. */
static PyObject *
none_or_error(int is_done, const char *problem)
{
    if (!is_done) {
        PyErr_SetString(PyExc_ValueError, problem);
        return NULL;
    }
    return Py_NewRef(Py_None);
}

/* From this size on the system is asked for pages of 2 MiB: to map 4 KiB at a time takes longer. */
enum { LARGE_BYTES = 4 * 1024 * 1024, PAGE_BYTES = 4096 };

/* Memory that is not filled with zeros: the system maps its pages when bytes come in. */
static PyObject *
room_for(int64_t size_bytes)
{
    PyObject *made = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size_bytes);
#ifdef MADV_HUGEPAGE
    if (made != NULL && size_bytes >= LARGE_BYTES) {
        char *memory = PyByteArray_AsString(made);
        size_t in_front = PAGE_BYTES - (uintptr_t)memory % PAGE_BYTES;
        madvise(memory + in_front, (size_t)size_bytes - in_front, MADV_HUGEPAGE);
    }
#endif
    return made;
}

PyDoc_STRVAR(room_doc,
"room(size_bytes)\n--\n\n"
"Returns:\n"
"    A bytearray of that size, with anything in it.");

static PyObject *
room(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_ssize_t size_bytes;
    if (!PyArg_ParseTuple(arguments, "n:room", &size_bytes)) {
        return NULL;
    }
    if (size_bytes < 0) {
        PyErr_Format(PyExc_ValueError, "room for %zd bytes", size_bytes);
        return NULL;
    }
    return room_for(size_bytes);
}

/* --- reading ----------------------------------------------------------------------------------------------- */

enum { VARINT_BYTES = 5, VARLONG_BYTES = 10 };
/* Attributes, timestamp delta, offset delta, key length, value length, number of headers: a byte each. */
enum { LEAST_BODY_BYTES = 6 };
/* Of an offset that a batch begins with: what is added must not leave 64 bits. */
#define GREATEST_OFFSET ((int64_t)1 << 62)

/* Where reading is in some bytes, and where it has to stop. */
typedef struct {
    const uint8_t *data;
    int64_t at;
    int64_t end;
} Place;

/* A zigzag varint. As in Java five bytes hold 32 bits and ten hold 64; what does not fit falls off. */
static inline int
read_varint(Place *place, int most_bytes, int64_t *number)
{
    uint64_t raw = 0;
    for (int nth = 0; nth < most_bytes && place->at < place->end; nth++) {
        uint8_t byte = place->data[place->at++];
        raw |= (uint64_t)(byte & 0x7F) << (7 * nth);
        if (byte < 0x80) {
            if (most_bytes == VARINT_BYTES) {
                raw &= UINT32_MAX;
            }
            *number = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return 1;
        }
    }
    return 0;
}

/* A key, a value, or one of a header: any negative length is null, and becomes -1. */
static inline int
read_bytes(Place *place, int64_t *start, int64_t *length)
{
    if (!read_varint(place, VARINT_BYTES, length) || *length > place->end - place->at) {
        return 0;
    }
    *start = place->at;
    if (*length < 0) {
        *length = -1;
    }
    else {
        place->at += *length;
    }
    return 1;
}

static inline int
read_header(Place *place, int64_t *key_start, int64_t *key_length, int64_t *value_start, int64_t *value_length)
{
    return read_bytes(place, key_start, key_length) && *key_length >= 0 && read_bytes(place, value_start, value_length);
}

/* The columns that are filled, one behind the other, and how many headers all records have. */
enum { TIMESTAMP_DELTA, OFFSET_DELTA, KEY_START, KEY_LENGTH, VALUE_START, VALUE_LENGTH, HEADERS_AT, FIELDS };
typedef struct {
    int64_t *fields;
    int64_t rows;
    int64_t most_headers;
    int64_t headers;
} Columns;

/* One record; its headers have to end with it. */
static inline int
read_record(Place *batch, Columns *columns, int64_t row)
{
    int64_t *fields = columns->fields + row, rows = columns->rows;
    int64_t length;
    if (!read_varint(batch, VARINT_BYTES, &length) || length < LEAST_BODY_BYTES || length > batch->end - batch->at) {
        return 0;
    }
    Place place = {batch->data, batch->at + 1, batch->at + length};  /* behind the attributes, which mean nothing */
    batch->at = place.end;
    if (!read_varint(&place, VARLONG_BYTES, fields + TIMESTAMP_DELTA * rows)
        || !read_varint(&place, VARINT_BYTES, fields + OFFSET_DELTA * rows)
        || !read_bytes(&place, fields + KEY_START * rows, fields + KEY_LENGTH * rows)
        || !read_bytes(&place, fields + VALUE_START * rows, fields + VALUE_LENGTH * rows)) {
        return 0;
    }
    fields[HEADERS_AT * rows] = place.at;
    int64_t headers, span[4];
    if (!read_varint(&place, VARINT_BYTES, &headers) || headers < 0 || headers > columns->most_headers) {
        return 0;
    }
    for (int64_t nth = 0; nth < headers; nth++) {
        if (!read_header(&place, span, span + 1, span + 2, span + 3)) {
            return 0;
        }
    }
    columns->headers += headers;
    return place.at == place.end;
}

/* --- finding batches --------------------------------------------------------------------------------------- */

/* A batch of magic 2 begins with an int64 offset and the int32 length of what follows; `kwire/protocol/record_batch.py`
   has the rest. */
enum { LENGTH_AT = 8, LOG_OVERHEAD_BYTES = 12, MAGIC_AT = 16, CRC_AT = 17, CRC_COVERS_FROM = 21, HEADER_BYTES = 61 };

/* Up to this size the checksum of a batch is computed here: that takes less time than a call of the library does
   (measured). */
enum { FEW_BYTES = 512 };

static inline uint32_t
read_uint32(const uint8_t *data)
{
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

/* Where the batch ends that begins there; -1: it is not whole, or something else. */
static inline Py_ssize_t
end_of_batch(const Py_buffer *data, Py_ssize_t at)
{
    const uint8_t *header = (const uint8_t *)data->buf + at;
    if (data->len - at < HEADER_BYTES || header[MAGIC_AT] != 2) {
        return -1;
    }
    int64_t size_bytes = (int64_t)(int32_t)read_uint32(header + LENGTH_AT) + LOG_OVERHEAD_BYTES;
    return size_bytes < HEADER_BYTES || size_bytes > data->len - at ? -1 : at + (Py_ssize_t)size_bytes;
}

/* CRC-32C, eight bytes at a step: row n tells what a byte does to a checksum from n bytes in front of its end. */
static uint32_t crc_of_byte[8][256];

static void
fill_crc_of_byte(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
        }
        crc_of_byte[0][byte] = crc;
    }
    for (int row = 1; row < 8; row++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = crc_of_byte[row - 1][byte];
            crc_of_byte[row][byte] = crc >> 8 ^ crc_of_byte[0][crc & 0xFF];
        }
    }
}

static uint32_t
crc32c(const uint8_t *data, Py_ssize_t size_bytes)
{
    uint32_t crc = UINT32_MAX;
    for (; size_bytes >= 8; data += 8, size_bytes -= 8) {
        crc = crc_of_byte[7][data[0] ^ (crc & 0xFF)] ^ crc_of_byte[6][data[1] ^ (crc >> 8 & 0xFF)]
            ^ crc_of_byte[5][data[2] ^ (crc >> 16 & 0xFF)] ^ crc_of_byte[4][data[3] ^ crc >> 24]
            ^ crc_of_byte[3][data[4]] ^ crc_of_byte[2][data[5]] ^ crc_of_byte[1][data[6]] ^ crc_of_byte[0][data[7]];
    }
    for (; size_bytes > 0; data++, size_bytes--) {
        crc = crc >> 8 ^ crc_of_byte[0][(crc ^ *data) & 0xFF];
    }
    return ~crc;
}

/* Whether the checksum of a batch is right: 1 or 0; -1 if the call of `checksum` has raised. */
static int
has_right_checksum(const Py_buffer *data, PyObject *view, PyObject *checksum, Py_ssize_t at, Py_ssize_t end)
{
    const uint8_t *batch = (const uint8_t *)data->buf + at;
    uint32_t written = read_uint32(batch + CRC_AT);
    if (end - at <= FEW_BYTES) {
        return crc32c(batch + CRC_COVERS_FROM, end - at - CRC_COVERS_FROM) == written;
    }
    PyObject *covered = PySequence_GetSlice(view, at + CRC_COVERS_FROM, end);
    PyObject *found = covered == NULL ? NULL : PyObject_CallFunctionObjArgs(checksum, covered, NULL);
    Py_XDECREF(covered);
    unsigned long crc = found == NULL ? 0 : PyLong_AsUnsignedLong(found);
    Py_XDECREF(found);
    return PyErr_Occurred() ? -1 : crc == written;
}

/* What is said of a batch, in the order of `Batch`: where it begins, and what its header has. */
enum {
    POSITION, BASE_OFFSET, LENGTH, LEADER_EPOCH, MAGIC, CRC, ATTRIBUTES, LAST_OFFSET_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP,
    PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, RECORD_COUNT, BATCH_NUMBERS
};
enum { BATCH_BYTES = BATCH_NUMBERS * sizeof(int64_t), CODEC_MASK = 7, LOG_APPEND_TIME_BIT = 8 };

/* The sizes of those that the header has. */
static const uint8_t SIZES_BYTES[] = {8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4};

static void
read_batch(const uint8_t *header, int64_t position, int64_t *numbers)
{
    numbers[POSITION] = position;
    for (int nth = BASE_OFFSET; nth < BATCH_NUMBERS; nth++) {
        uint64_t number = (uint64_t)(int8_t)*header++;
        for (int left = SIZES_BYTES[nth - 1] - 1; left; left--) {
            number = number << 8 | *header++;
        }
        numbers[nth] = (int64_t)number;
    }
    numbers[CRC] &= UINT32_MAX;
}

/* Answers how many they are, or -1. */
static Py_ssize_t
read_sound_batches(const Py_buffer *data, PyObject *view, PyObject *checksum, int64_t *numbers, Py_ssize_t room)
{
    Py_ssize_t at = 0, end;
    for (Py_ssize_t nth = 0; nth < room; nth++, at = end) {
        end = end_of_batch(data, at);
        int is_sound = end < 0 ? 0 : checksum == Py_None ? 1 : has_right_checksum(data, view, checksum, at, end);
        if (is_sound <= 0) {
            return is_sound < 0 ? -1 : nth;
        }
        read_batch((const uint8_t *)data->buf + at, at, numbers + nth * BATCH_NUMBERS);
    }
    return room;
}

PyDoc_STRVAR(find_batches_doc,
"find_batches(data, checksum)\n--\n\n"
"Find the whole, sound batches of magic 2 that a record set begins with.\n\n"
"Args:\n"
"    data: The record set.\n"
"    checksum: Takes bytes, answers their CRC-32C; None: checksums are not looked at.\n\n"
"Returns:\n"
"    The bytes of int64, (batches, 14): where each of them begins, and the numbers of its header.");

static PyObject *
batches_of(const Py_buffer *data, PyObject *view, PyObject *checksum)
{
    Py_ssize_t room = 0;
    for (Py_ssize_t end = end_of_batch(data, 0); end >= 0; end = end_of_batch(data, end)) {
        room++;
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, room * BATCH_BYTES);
    if (bytes == NULL) {
        return NULL;
    }
    char *numbers = PyBytes_AsString(bytes);
    Py_ssize_t found = read_sound_batches(data, view, checksum, (int64_t *)numbers, room);
    PyObject *result = NULL;
    if (found >= 0) {
        result = found == room ? Py_NewRef(bytes) : PyBytes_FromStringAndSize(numbers, found * BATCH_BYTES);
    }
    Py_DECREF(bytes);
    return result;
}

static PyObject *
find_batches(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *object, *checksum;
    if (!PyArg_ParseTuple(arguments, "OO:find_batches", &object, &checksum)) {
        return NULL;
    }
    PyObject *view = PyMemoryView_FromObject(object);
    Py_buffer data;
    if (view == NULL || PyObject_GetBuffer(view, &data, PyBUF_SIMPLE) < 0) {
        Py_XDECREF(view);
        return NULL;
    }
    PyObject *batches = batches_of(&data, view, checksum);
    PyBuffer_Release(&data);
    Py_DECREF(view);
    return batches;
}

/* Numbers that nobody has checked yet: the sum may wrap around. */
static inline int64_t
sum_of(int64_t one, int64_t other)
{
    return (int64_t)((uint64_t)one + (uint64_t)other);
}

static inline int64_t
start_of_payload(const int64_t *batch)
{
    return sum_of(batch[POSITION], HEADER_BYTES);
}

/* One that has no records, as compaction leaves it, has no payload. */
static inline int64_t
end_of_payload(const int64_t *batch)
{
    int64_t size_bytes = batch[RECORD_COUNT] ? sum_of(batch[LENGTH], LOG_OVERHEAD_BYTES) : HEADER_BYTES;
    return sum_of(batch[POSITION], size_bytes);
}

PyDoc_STRVAR(payloads_doc,
"payloads(batches)\n--\n\n"
"Args:\n"
"    batches: From `find_batches`.\n\n"
"Returns:\n"
"    The bytes of int64, (3, batches), as `inflate` takes them: the codec of each, and where its payload begins and\n"
"    ends. One without records is stored, and has no payload.");

static PyObject *
payloads(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer batches;
    if (!PyArg_ParseTuple(arguments, "y*:payloads", &batches)) {
        return NULL;
    }
    Py_ssize_t count = batches.len / BATCH_BYTES;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, 3 * count * (Py_ssize_t)sizeof(int64_t));
    if (bytes != NULL) {
        int64_t *numbers = (int64_t *)PyBytes_AsString(bytes);
        const int64_t *batch = batches.buf;
        for (Py_ssize_t nth = 0; nth < count; nth++, batch += BATCH_NUMBERS) {
            numbers[nth] = batch[RECORD_COUNT] ? batch[ATTRIBUTES] & CODEC_MASK : 0;
            numbers[count + nth] = start_of_payload(batch);
            numbers[2 * count + nth] = end_of_payload(batch);
        }
    }
    PyBuffer_Release(&batches);
    return bytes;
}

PyDoc_STRVAR(sum_and_union_doc,
"sum_and_union(numbers, first, step)\n--\n\n"
"Args:\n"
"    numbers: int64.\n"
"    first: The first of those that are meant.\n"
"    step: How far it is from each of them to the next one.\n\n"
"Returns:\n"
"    Their sum, and the bits that are set in any of them.");

static PyObject *
sum_and_union(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer buffer;
    Py_ssize_t first, step;
    if (!PyArg_ParseTuple(arguments, "y*nn:sum_and_union", &buffer, &first, &step)) {
        return NULL;
    }
    int are_there = first >= 0 && step > 0;
    const int64_t *numbers = buffer.buf;
    Py_ssize_t count = buffer.len / (Py_ssize_t)sizeof(int64_t);
    int64_t sum = 0, bits = 0;
    for (Py_ssize_t left = are_there ? count - first : 0; left > 0; left -= step) {
        int64_t number = numbers[count - left];
        sum = sum_of(sum, number);
        bits |= number;
    }
    PyBuffer_Release(&buffer);
    if (!are_there) {
        PyErr_Format(PyExc_ValueError, "each %zd. number from %zd on", step, first);
        return NULL;
    }
    return Py_BuildValue("LL", (long long)sum, (long long)bits);
}

/* --- reading records --------------------------------------------------------------------------------------- */

/* The records of a batch, and what it says of all of them. */
typedef struct {
    int64_t start, end, count;
    const int64_t *numbers;
} BatchRecords;

/* A record has seven bytes or more, so what is allocated for the records stays below the bytes there are. */
static inline int
can_have_records(const Py_buffer *buffer, const BatchRecords *batch)
{
    return batch->start >= 0 && batch->start <= batch->end && batch->end <= buffer->len && batch->count >= 0
        && batch->count <= (batch->end - batch->start) / (LEAST_BODY_BYTES + 1);
}

/* The nth of them; `behind` says where each ends, if they were inflated, one behind the other. */
static inline BatchRecords
records_of_batch(const int64_t *batches, const int64_t *behind, Py_ssize_t nth)
{
    const int64_t *numbers = batches + nth * BATCH_NUMBERS;
    int64_t start = behind == NULL ? start_of_payload(numbers) : nth ? behind[nth - 1] : 0;
    int64_t end = behind == NULL ? end_of_payload(numbers) : behind[nth];
    return (BatchRecords){start, end, numbers[RECORD_COUNT], numbers};
}

/* How many records there are; -1: a header says what cannot be. */
static int64_t
count_records(const Py_buffer *buffer, const int64_t *batches, const int64_t *behind, Py_ssize_t count)
{
    int64_t records = 0;
    for (Py_ssize_t nth = 0; nth < count; nth++) {
        BatchRecords batch = records_of_batch(batches, behind, nth);
        if (!can_have_records(buffer, &batch) || batch.numbers[BASE_OFFSET] > GREATEST_OFFSET) {
            return -1;
        }
        records += batch.count;
    }
    return records;
}

/* Whether all is sound: each batch ends with its last record. */
static int
read_records_of(const Py_buffer *buffer, const int64_t *batches, const int64_t *behind, Py_ssize_t count,
                Columns *columns)
{
    int64_t row = 0;
    for (Py_ssize_t nth = 0; nth < count; nth++) {
        BatchRecords batch = records_of_batch(batches, behind, nth);
        Place place = {buffer->buf, batch.start, batch.end};
        for (int64_t last = row + batch.count; row < last; row++) {
            if (!read_record(&place, columns, row)) {
                return 0;
            }
        }
        if (batch.count && place.at != batch.end) {
            return 0;
        }
    }
    return 1;
}

/* The headers of all records, which are sound: which is the first one of each record, and what `read_header` finds. */
static void
read_headers(const Py_buffer *buffer, const Columns *columns, int64_t *first)
{
    int64_t rows = columns->rows, room = columns->headers, found = 0, *spans = first + rows + 1;
    for (int64_t row = 0; row < rows; row++) {
        first[row] = found;
        Place place = {buffer->buf, columns->fields[HEADERS_AT * rows + row], buffer->len};
        int64_t headers = 0;
        read_varint(&place, VARINT_BYTES, &headers);
        for (; headers > 0; headers--, found++) {
            int64_t *span = spans + found;
            read_header(&place, span, span + room, span + 2 * room, span + 3 * room);
        }
    }
    first[rows] = found;
}

static PyObject *
headers_of_all(const Py_buffer *buffer, const Columns *columns)
{
    if (!columns->headers) {
        return Py_NewRef(Py_None);
    }
    PyObject *made = room_for((columns->rows + 1 + 4 * columns->headers) * (int64_t)sizeof(int64_t));
    if (made != NULL) {
        read_headers(buffer, columns, (int64_t *)PyByteArray_AsString(made));
    }
    return made;
}

/* Deltas become times and offsets, and what a batch says once is said of each record: leader epoch (int32) and timestamp
   type (int8) take the place of the last column. Whether the offsets ascend. */
static int
finish_columns(const int64_t *batches, const int64_t *behind, Py_ssize_t count, const Columns *columns)
{
    int64_t rows = columns->rows, row = 0, last_offset = INT64_MIN;
    int64_t *timestamps = columns->fields + TIMESTAMP_DELTA * rows, *offsets = columns->fields + OFFSET_DELTA * rows;
    int32_t *epochs = (int32_t *)(columns->fields + HEADERS_AT * rows);
    int8_t *types = (int8_t *)(epochs + rows);
    for (Py_ssize_t nth = 0; nth < count; nth++) {
        BatchRecords batch = records_of_batch(batches, behind, nth);
        const int64_t *numbers = batch.numbers;
        /* KIP-32: all records of the batch have the time the broker appended it, its max timestamp. */
        int is_appended = (numbers[ATTRIBUTES] & LOG_APPEND_TIME_BIT) != 0;
        for (int64_t end = row + batch.count; row < end; row++) {
            offsets[row] = sum_of(numbers[BASE_OFFSET], offsets[row]);
            int64_t created = sum_of(numbers[BASE_TIMESTAMP], timestamps[row]);
            timestamps[row] = is_appended ? numbers[MAX_TIMESTAMP] : created;
            epochs[row] = (int32_t)numbers[LEADER_EPOCH];
            types[row] = (int8_t)is_appended;
            if (offsets[row] <= last_offset) {
                return 0;
            }
            last_offset = offsets[row];
        }
    }
    return 1;
}

PyDoc_STRVAR(read_records_doc,
"read_records(buffer, batches, behind, most_headers)\n--\n\n"
"Read the records of some batches.\n\n"
"Args:\n"
"    buffer: The bytes.\n"
"    batches: From `find_batches`.\n"
"    behind: int64, where the records of each end, if they were inflated; None: they lie in their batch.\n"
"    most_headers: Of one record; one with more is not sound.\n\n"
"Returns:\n"
"    None: something is not sound, or the offsets do not ascend. Else how many records and headers there are, and\n"
"    the bytes of int64, (7, records): timestamps, offsets, key starts, key lengths, value starts, value lengths, and in\n"
"    the last one the leader epochs (int32) and, behind them, the timestamp types (int8). If there are headers, int64\n"
"    behind them: which is the first one of each record, one more, and of all key starts, key lengths, value starts,\n"
"    value lengths; None if there are none.");

static PyObject *
read_all_records(const Py_buffer *buffer, const int64_t *batches, const int64_t *behind, Py_ssize_t count,
                 int64_t most_headers)
{
    int64_t rows = count_records(buffer, batches, behind, count);
    if (rows < 0) {
        return Py_NewRef(Py_None);
    }
    PyObject *made = room_for(rows * FIELDS * (int64_t)sizeof(int64_t)), *headers = NULL, *result = NULL;
    if (made == NULL) {
        return NULL;
    }
    Columns columns = {(int64_t *)PyByteArray_AsString(made), rows, most_headers, 0};
    if (!read_records_of(buffer, batches, behind, count, &columns)) {
        result = Py_NewRef(Py_None);
    }
    else if ((headers = headers_of_all(buffer, &columns)) != NULL) {
        result = !finish_columns(batches, behind, count, &columns) ? Py_NewRef(Py_None)
            : Py_BuildValue("LLOO", (long long)rows, (long long)columns.headers, made, headers);
    }
    Py_XDECREF(headers);
    Py_DECREF(made);
    return result;
}

static PyObject *
read_records(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer buffer, batches, behind;
    PyObject *object;
    long long most_headers;
    if (!PyArg_ParseTuple(arguments, "y*y*OL:read_records", &buffer, &batches, &object, &most_headers)) {
        return NULL;
    }
    PyObject *result = NULL;
    Py_ssize_t count = batches.len / BATCH_BYTES;
    if (object == Py_None) {
        result = read_all_records(&buffer, batches.buf, NULL, count, most_headers);
    }
    else if (PyObject_GetBuffer(object, &behind, PyBUF_SIMPLE) == 0) {
        if (behind.len == count * (Py_ssize_t)sizeof(int64_t)) {
            result = read_all_records(&buffer, batches.buf, behind.buf, count, most_headers);
        }
        else {
            PyErr_Format(PyExc_ValueError, "%zd batches, and %zd bytes that say where they end", count, behind.len);
        }
        PyBuffer_Release(&behind);
    }
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&batches);
    return result;
}

/* --- inflating --------------------------------------------------------------------------------------------- */

/* What is inflated by itself, and how far it is. A processor has to read a sequence of lz4, or an element of snappy, to
   know where the next one begins, and waits for that most of the time. So two blocks are inflated in turns: they take
   little longer than one. A block that turned out to be damaged, or to have too little room, has no source. */
typedef struct {
    const uint8_t *source, *source_end;
    uint8_t *target, *at, *target_end;
} Block;

static inline int
is_open(const Block *block)
{
    return block->source && block->source < block->source_end;
}

static inline int
has_slack(const Block *block, int64_t source_bytes, int64_t target_bytes)
{
    return block->source_end - block->source >= source_bytes && block->target_end - block->at >= target_bytes;
}

/* Inflates a sequence, or an element, and answers whether it could. */
typedef int (*Step)(Block *);

static inline void
move_to(Block *block, const Block *place)
{
    block->source = place->source;
    block->at = place->at;
}

static ALWAYS_INLINE void
take_step(Block *block, Step step)
{
    if (!step(block)) {
        block->source = NULL;
    }
}

/* A block, by short steps, and by any where the next one is no short one. */
static ALWAYS_INLINE void
inflate_block(Block *block, Step short_step, Step any_step)
{
    while (is_open(block)) {
        Block place = *block;
        while (short_step(&place)) {
        }
        move_to(block, &place);
        take_step(block, any_step);
    }
}

/* Two of them, in turns, until one ends; and then the rest of the other one. */
static ALWAYS_INLINE void
inflate_two_blocks(Block *blocks, Step short_step, Step any_step)
{
    while (is_open(&blocks[0]) && is_open(&blocks[1])) {
        Block first = blocks[0], second = blocks[1];
        int is_first_short, are_both_short;
        do {
            is_first_short = short_step(&first);
            are_both_short = is_first_short && short_step(&second);
        } while (are_both_short);
        move_to(&blocks[0], &first);
        move_to(&blocks[1], &second);
        take_step(&blocks[is_first_short], any_step);
    }
    inflate_block(&blocks[0], short_step, any_step);
    inflate_block(&blocks[1], short_step, any_step);
}

enum { STEP_BYTES = 16 };

/* Copies in steps, of which the last may go beyond the end. Source and target are a step apart, or more. */
static inline void
copy_in_steps(uint8_t *target, const uint8_t *source, int64_t length)
{
    for (int64_t at = 0; at < length; at += STEP_BYTES) {
        memcpy(target + at, source + at, STEP_BYTES);
    }
}

static void
copy_literals(Block *block, int64_t length)
{
    if (has_slack(block, length + STEP_BYTES, length + STEP_BYTES)) {
        copy_in_steps(block->at, block->source, length);
    }
    else {
        memcpy(block->at, block->source, length);
    }
    block->source += length;
    block->at += length;
}

/* A match may copy what it has just written itself. */
static void
copy_match(Block *block, int64_t offset, int64_t length)
{
    uint8_t *target = block->at;
    const uint8_t *source = target - offset;
    if (offset >= STEP_BYTES && block->target_end - target - length >= STEP_BYTES) {
        copy_in_steps(target, source, length);
    }
    else if (offset == 1) {
        memset(target, *source, length);
    }
    else {
        for (int64_t nth = 0; nth < length; nth++) {
            target[nth] = source[nth];
        }
    }
    block->at += length;
}

/* The lz4 block format: each sequence is a token, literals, and a match, which copies what was written `offset` bytes
   before. The last sequence has no match. A length that fills its half of the token goes on in further bytes. */
enum { LZ4_LEAST_MATCH = 4, LZ4_LONG = 15 };
/* What stands behind literals, if they are not the last: an offset, and a token with at least five literals. */
enum { LZ4_LEAST_REST = 2 + 1 + 5 };

/* A short sequence has so many literals at most, and a match of so many bytes at most, so that each length has a byte
   more at most. It reads no more, and writes no more, steps that go beyond its end included. */
enum { LZ4_SHORT_LITERALS = 2 * STEP_BYTES, LZ4_SHORT_MATCH = 4 * STEP_BYTES, LZ4_HALF_STEP_BYTES = STEP_BYTES / 2 };
enum { LZ4_SHORT_MORE = LZ4_SHORT_MATCH - LZ4_LONG - LZ4_LEAST_MATCH };
enum {
    LZ4_SOURCE_SLACK_BYTES = 2 + LZ4_SHORT_LITERALS + LZ4_LEAST_REST,
    LZ4_TARGET_SLACK_BYTES = LZ4_SHORT_LITERALS + LZ4_SHORT_MATCH,
};

/* A length of which the token has this much; -1: it has no end. */
static inline int64_t
lz4_length(const uint8_t **source, const uint8_t *source_end, int64_t length)
{
    uint8_t more = length == LZ4_LONG ? UINT8_MAX : 0;
    while (more == UINT8_MAX) {
        if (*source == source_end) {
            return -1;
        }
        more = *(*source)++;
        length += more;
    }
    return length;
}

static inline uint32_t
read_little_uint16(const uint8_t *data)
{
    return (uint32_t)data[0] | (uint32_t)data[1] << 8;
}

/* Answers whether the next one is a short sequence; it is inflated then. */
static ALWAYS_INLINE int
inflate_short_sequence(Block *block)
{
    if (!has_slack(block, LZ4_SOURCE_SLACK_BYTES, LZ4_TARGET_SLACK_BYTES)) {
        return 0;
    }
    const uint8_t *source = block->source;
    uint8_t *at = block->at;
    uint32_t token = *source++, literals = token >> 4, length = token & LZ4_LONG;
    if (literals < LZ4_LONG) {
        memcpy(at, source, STEP_BYTES);
    }
    else {
        literals += *source++;
        if (literals > LZ4_SHORT_LITERALS) {
            return 0;
        }
        memcpy(at, source, LZ4_SHORT_LITERALS);
    }
    source += literals;
    at += literals;
    int64_t offset = read_little_uint16(source);
    source += 2;
    if (offset < LZ4_HALF_STEP_BYTES || offset > at - block->target) {
        return 0;
    }
    const uint8_t *match = at - offset;
    memcpy(at, match, LZ4_HALF_STEP_BYTES);
    memcpy(at + LZ4_HALF_STEP_BYTES, match + LZ4_HALF_STEP_BYTES, LZ4_HALF_STEP_BYTES);
    memcpy(at + STEP_BYTES, match + STEP_BYTES, 2);
    if (length == LZ4_LONG) {
        uint32_t more = *source++;
        if (more > LZ4_SHORT_MORE || offset < STEP_BYTES) {
            return 0;
        }
        copy_in_steps(at + STEP_BYTES, match + STEP_BYTES, LZ4_LONG + LZ4_LEAST_MATCH - STEP_BYTES + more);
        length += more;
    }
    block->source = source;
    block->at = at + length + LZ4_LEAST_MATCH;
    return 1;
}

/* One sequence of any kind. Answers whether it is sound. */
static int
inflate_sequence(Block *block)
{
    uint8_t token = *block->source++;
    int64_t literals = lz4_length(&block->source, block->source_end, token >> 4);
    if (literals < 0 || literals > block->source_end - block->source || literals > block->target_end - block->at) {
        return 0;
    }
    copy_literals(block, literals);
    if (block->source_end - block->source < LZ4_LEAST_REST) {
        return block->source == block->source_end;
    }
    int64_t offset = read_little_uint16(block->source);
    block->source += 2;
    int64_t length = lz4_length(&block->source, block->source_end, token & LZ4_LONG);
    if (!offset || offset > block->at - block->target || length < 0 || block->source == block->source_end
        || length + LZ4_LEAST_MATCH > block->target_end - block->at) {
        return 0;
    }
    copy_match(block, offset, length + LZ4_LEAST_MATCH);
    return 1;
}

static inline uint32_t
read_little_uint32(const uint8_t *data)
{
    return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

/* The snappy format: how many bytes a block inflates to, and then elements: literals, or a copy of what was written
   `offset` bytes before. The low two bits of an element's first byte, its tag, are its kind. The others are the length,
   or, if they are a large number, how many bytes tell it. Of a near copy they are part of the offset, too. */
enum { SNAPPY_LITERALS, SNAPPY_NEAR, SNAPPY_COPY, SNAPPY_FAR, SNAPPY_KINDS };
enum { SNAPPY_MOST_SHORT = 60, SNAPPY_MOST_COPIED = 64, SNAPPY_LEAST_NEAR = 4 };
/* An element whose tag tells its length reads less, and writes less, steps that go beyond its end included. */
enum { SNAPPY_SLACK_BYTES = SNAPPY_MOST_COPIED + STEP_BYTES };

/* How many bytes an element takes, how many it copies, and where from: which bits of the bytes behind the tag tell the
   offset, and what the tag adds to them. Literals have the size of a step in the place of an offset, which is not used.
   An offset that no block has means: the tag does not tell the length, or the offset is longer than two bytes. */
typedef struct {
    uint32_t size, length, offset_mask, offset_bits;
} SnappyTag;

static SnappyTag snappy_tags[256];

static void
fill_snappy_tags(void)
{
    static const uint32_t offset_masks[SNAPPY_KINDS] = {0, UINT8_MAX, UINT16_MAX, 0};
    for (uint32_t tag = 0; tag < 256; tag++) {
        uint32_t kind = tag % SNAPPY_KINDS, number = tag / SNAPPY_KINDS;
        uint32_t offsets[SNAPPY_KINDS] = {STEP_BYTES, (tag & 0xE0) << 3, 0, UINT32_MAX};
        if (number >= SNAPPY_MOST_SHORT) {
            offsets[SNAPPY_LITERALS] = UINT32_MAX;
        }
        snappy_tags[tag] = (SnappyTag){
            .size = kind ? 1 + kind : 2 + number,
            .length = kind == SNAPPY_NEAR ? SNAPPY_LEAST_NEAR + (number & 7) : number + 1,
            .offset_mask = offset_masks[kind],
            .offset_bits = offsets[kind],
        };
    }
}

/* What a block says it inflates to, in seven bits a byte, which are passed; -1: it says nothing that can be. */
static int64_t
snappy_size(const uint8_t **source, const uint8_t *source_end)
{
    int64_t size = 0;
    for (int bits = 0; bits < 32 && *source < source_end; bits += 7) {
        uint8_t byte = *(*source)++;
        size |= (int64_t)(byte & INT8_MAX) << bits;
        if (byte <= INT8_MAX) {
            return size <= UINT32_MAX ? size : -1;
        }
    }
    return -1;
}

/* Answers whether the next one is a short element: one that has all in its tag and the two bytes behind it, and copies
   nothing that is less than a step away. It is inflated then. Literals and copies go the same way: no processor could
   guess which is next. Contract: `inflate_first_step` was called. */
static ALWAYS_INLINE int
inflate_short_element(Block *block)
{
    if (!has_slack(block, SNAPPY_SLACK_BYTES, SNAPPY_SLACK_BYTES)) {
        return 0;
    }
    const uint8_t *source = block->source;
    uint8_t *at = block->at;
    uint32_t byte = *source, kind = byte % SNAPPY_KINDS;
    SnappyTag tag = snappy_tags[byte];
    uint64_t offset = (read_little_uint32(source + 1) & tag.offset_mask) | tag.offset_bits;
    if (offset - STEP_BYTES > (uint64_t)(at - block->target - STEP_BYTES)) {
        return 0;
    }
    uintptr_t literals = (uintptr_t)(source + 1), copied = (uintptr_t)at - offset, if_copy = -(uintptr_t)(kind != 0);
    const uint8_t *from = (const uint8_t *)(literals ^ ((literals ^ copied) & if_copy));
    block->source = source + tag.size;
    memcpy(at, from, STEP_BYTES);
    if (tag.length > STEP_BYTES) {
        copy_in_steps(at + STEP_BYTES, from + STEP_BYTES, SNAPPY_MOST_COPIED - STEP_BYTES);
    }
    block->at = at + tag.length;
    return 1;
}

/* One element of any kind. Answers whether it is sound. */
static int
inflate_element(Block *block)
{
    static const uint8_t offset_bytes[SNAPPY_KINDS] = {0, 1, 2, 4};
    uint8_t byte = *block->source++;
    SnappyTag tag = snappy_tags[byte];
    int kind = byte % SNAPPY_KINDS;
    int64_t length = tag.length, number = 0;
    int is_long = kind == SNAPPY_LITERALS && length > SNAPPY_MOST_SHORT;
    int bytes = is_long ? (int)length - SNAPPY_MOST_SHORT : offset_bytes[kind];
    if (bytes > block->source_end - block->source) {
        return 0;
    }
    for (int nth = 0; nth < bytes; nth++) {
        number |= (int64_t)*block->source++ << 8 * nth;
    }
    length = is_long ? number + 1 : length;
    int64_t offset = kind == SNAPPY_FAR ? number : number | tag.offset_bits;
    int is_there = kind ? offset && offset <= block->at - block->target : length <= block->source_end - block->source;
    if (!is_there || length > block->target_end - block->at) {
        return 0;
    }
    if (kind) {
        copy_match(block, offset, length);
    }
    else {
        copy_literals(block, length);
    }
    return 1;
}

/* The first step of a block, of which there is nothing a step away. */
static void
inflate_first_step(Block *block)
{
    while (is_open(block) && block->at - block->target < STEP_BYTES) {
        take_step(block, inflate_element);
    }
}

/* A block of a payload, and the most that it inflates to, which a block of lz4 may fall short of. */
typedef struct {
    int64_t codec;
    const uint8_t *source;
    int64_t size, most_bytes;
    Py_ssize_t payload;
} Piece;

enum { STORED = 0, SNAPPY = 2, LZ4 = 3 };

/* What of a payload is not cut into pieces yet. */
typedef struct {
    int64_t codec;
    const uint8_t *at, *end;
    int is_begun;
} Payload;

/* What can be cut off next. */
enum { DAMAGED = -1, NO_PIECE = 0, PIECE = 1 };

/* What all frames of lz4 have in common. */
typedef struct {
    Py_buffer header;
    long long block_bytes, behind_block_bytes, behind_frame_bytes;
} Lz4Frames;

enum { LZ4_WORD_BYTES = 4 };

static int
begins_with(const Payload *payload, const void *header, int64_t bytes)
{
    return payload->end - payload->at >= bytes && !memcmp(payload->at, header, bytes);
}

/* Behind the header, blocks stand behind their sizes, of which the highest bit says: stored. No size is the end. */
static int
cut_lz4(Payload *payload, const Lz4Frames *frames, Piece *piece)
{
    if (!payload->is_begun) {
        if (!begins_with(payload, frames->header.buf, frames->header.len)) {
            return DAMAGED;
        }
        payload->at += frames->header.len;
    }
    int64_t left = payload->end - payload->at - LZ4_WORD_BYTES;
    if (left < 0) {
        return DAMAGED;
    }
    uint32_t word = read_little_uint32(payload->at);
    int64_t size = word & INT32_MAX;
    if (!word) {
        return left >= frames->behind_frame_bytes ? NO_PIECE : DAMAGED;
    }
    if (size > left) {
        return DAMAGED;
    }
    int is_stored = word >> 31;
    piece->codec = is_stored ? STORED : LZ4;
    piece->source = payload->at + LZ4_WORD_BYTES;
    piece->size = size;
    piece->most_bytes = is_stored ? size : frames->block_bytes;
    int64_t whole_bytes = size + frames->behind_block_bytes;
    payload->at = piece->source + (whole_bytes < left ? whole_bytes : left);
    return PIECE;
}

/* A block begins with what it inflates to. */
static int
cut_snappy_block(Payload *payload, int64_t size, Piece *piece)
{
    const uint8_t *end = payload->at + size;
    piece->codec = SNAPPY;
    piece->source = payload->at;
    piece->most_bytes = snappy_size(&piece->source, end);
    piece->size = end - piece->source;
    payload->at = end;
    return piece->most_bytes < 0 ? DAMAGED : PIECE;
}

/* xerial's snappy-java, which Java's clients use: a header, and then blocks behind their sizes; or again a header. */
static const uint8_t XERIAL_MAGIC[] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
enum { XERIAL_HEADER_BYTES = 16, XERIAL_SIZE_BYTES = 4 };

/* A payload is one block, or a stream of them. */
static int
cut_snappy(Payload *payload, Piece *piece)
{
    if (!payload->is_begun && !begins_with(payload, XERIAL_MAGIC, sizeof XERIAL_MAGIC)) {
        return cut_snappy_block(payload, payload->end - payload->at, piece);
    }
    while (begins_with(payload, XERIAL_MAGIC, sizeof XERIAL_MAGIC)) {
        if (payload->end - payload->at < XERIAL_HEADER_BYTES) {
            return DAMAGED;
        }
        payload->at += XERIAL_HEADER_BYTES;
    }
    if (payload->at == payload->end) {
        return NO_PIECE;
    }
    int64_t left = payload->end - payload->at - XERIAL_SIZE_BYTES;
    int64_t size = left < 0 ? 0 : read_uint32(payload->at);
    if (size > left) {
        return DAMAGED;
    }
    payload->at += XERIAL_SIZE_BYTES;
    return cut_snappy_block(payload, size, piece);
}

static int
cut_stored(Payload *payload, Piece *piece)
{
    piece->codec = STORED;
    piece->source = payload->at;
    piece->size = piece->most_bytes = payload->end - payload->at;
    return payload->is_begun ? NO_PIECE : PIECE;
}

static int
cut_piece(Payload *payload, const Lz4Frames *frames, Piece *piece)
{
    int found = DAMAGED;
    if (payload->codec == LZ4) {
        found = cut_lz4(payload, frames, piece);
    }
    else if (payload->codec == SNAPPY) {
        found = cut_snappy(payload, piece);
    }
    else if (payload->codec == STORED) {
        found = cut_stored(payload, piece);
    }
    payload->is_begun = 1;
    return found;
}

/* What is inflated, and the pieces that are next: one waits for another one, to be inflated at the same time. It is
   through when that is enough, or the next piece is damaged, or has too little room. */
typedef struct {
    uint8_t *target;
    int64_t room, enough_bytes, written;
    int64_t *behind;
    Py_ssize_t ended;
    Piece pieces[2];
    int waiting, is_through;
} Inflated;

/* The payloads in front of this one end here. */
static void
end_payloads(Inflated *inflated, Py_ssize_t payload)
{
    while (inflated->ended < payload) {
        inflated->behind[inflated->ended++] = inflated->written;
    }
}

/* Whether the piece is wanted: no further payload is begun once there is enough. */
static int
is_wanted(Inflated *inflated, const Piece *piece)
{
    int is_begun = piece->payload == inflated->ended;
    if (!inflated->is_through) {
        end_payloads(inflated, piece->payload);
        inflated->is_through = !is_begun && inflated->written >= inflated->enough_bytes;
    }
    return !inflated->is_through;
}

/* The piece, to be inflated so many bytes behind all. */
static Block
block_of(const Inflated *inflated, const Piece *piece, int64_t behind_bytes)
{
    uint8_t *target = inflated->target + inflated->written + behind_bytes;
    int64_t room = inflated->room - inflated->written - behind_bytes;
    int64_t bytes = piece->most_bytes < room ? piece->most_bytes : room;
    return (Block){piece->source, piece->source + piece->size, target, target, target + bytes};
}

/* Moves to the end of all what was inflated, unless that is not the whole piece. */
static void
take_block(Inflated *inflated, const Piece *piece, const Block *block)
{
    int64_t bytes = block->at - block->target;
    uint8_t *end = inflated->target + inflated->written;
    if (!block->source || (piece->codec != LZ4 && bytes != piece->most_bytes)) {
        inflated->is_through = 1;
        return;
    }
    if (block->target != end) {
        memmove(end, block->target, bytes);
    }
    inflated->written += bytes;
}

static void
copy_block(Block *block)
{
    if (block->source_end - block->source == block->target_end - block->target) {
        copy_literals(block, block->source_end - block->source);
    }
}

static void
inflate_one(Inflated *inflated, const Piece *piece)
{
    if (!is_wanted(inflated, piece)) {
        return;
    }
    Block block = block_of(inflated, piece, 0);
    if (piece->codec == LZ4) {
        inflate_block(&block, inflate_short_sequence, inflate_sequence);
    }
    else if (piece->codec == SNAPPY) {
        inflate_first_step(&block);
        inflate_block(&block, inflate_short_element, inflate_element);
    }
    else {
        copy_block(&block);
    }
    take_block(inflated, piece, &block);
}

/* What a piece inflates to, as a rule. A block of lz4 does not say, and its most may be far more. */
enum { LZ4_LIKELY_RATIO = 8 };

static int64_t
likely_bytes(const Piece *piece)
{
    int64_t bytes = piece->size * LZ4_LIKELY_RATIO;
    return piece->codec == LZ4 && bytes < piece->most_bytes ? bytes : piece->most_bytes;
}

/* Where the second one begins is known once the first one is inflated. So it is moved there, unless it is there already,
   as with all blocks of an lz4 frame but the last. What has less room here than it needs is inflated by itself. */
static void
inflate_two(Inflated *inflated, const Piece *pieces)
{
    int64_t first_bytes = likely_bytes(&pieces[0]);
    Block blocks[] = {block_of(inflated, &pieces[0], 0), block_of(inflated, &pieces[1], first_bytes)};
    blocks[0].target_end = blocks[0].target + first_bytes;
    if (pieces[0].codec == LZ4) {
        inflate_two_blocks(blocks, inflate_short_sequence, inflate_sequence);
    }
    else {
        inflate_first_step(&blocks[0]);
        inflate_first_step(&blocks[1]);
        inflate_two_blocks(blocks, inflate_short_element, inflate_element);
    }
    if (!blocks[0].source) {
        inflate_one(inflated, &pieces[0]); /* over the second one, too */
        inflate_one(inflated, &pieces[1]);
        return;
    }
    take_block(inflated, &pieces[0], &blocks[0]);
    if (!blocks[1].source) {
        inflate_one(inflated, &pieces[1]);
    }
    else if (is_wanted(inflated, &pieces[1])) {
        take_block(inflated, &pieces[1], &blocks[1]);
    }
}

/* Whether those are two that can be inflated at the same time. */
static int
are_alike(const Inflated *inflated)
{
    const Piece *pieces = inflated->pieces;
    return inflated->waiting == 2 && pieces[0].codec == pieces[1].codec && pieces[0].codec != STORED
        && likely_bytes(&pieces[0]) + likely_bytes(&pieces[1]) <= inflated->room - inflated->written;
}

/* Inflates at least one of those that wait. */
static void
inflate_pieces(Inflated *inflated)
{
    Piece *pieces = inflated->pieces;
    if (are_alike(inflated)) {
        if (is_wanted(inflated, &pieces[0])) {
            inflate_two(inflated, pieces);
        }
        inflated->waiting = 0;
    }
    else if (inflated->waiting) {
        inflate_one(inflated, &pieces[0]);
        pieces[0] = pieces[1];
        inflated->waiting--;
    }
}

/* Answers whether all of the payload is inflated, or waits. */
static int
add_payload(Inflated *inflated, Payload *payload, Py_ssize_t nth, const Lz4Frames *frames)
{
    int found = PIECE;
    while (found == PIECE && !inflated->is_through) {
        Piece *piece = &inflated->pieces[inflated->waiting];
        found = cut_piece(payload, frames, piece);
        if (found == PIECE) {
            piece->payload = nth;
            inflated->waiting++;
        }
        if (inflated->waiting == 2) {
            inflate_pieces(inflated);
        }
    }
    return found == NO_PIECE;
}

static Py_ssize_t
inflate_payloads(const Lz4Frames *frames, const Py_buffer *buffer, const int64_t *payloads, Py_ssize_t count,
                 const Py_buffer *target, int64_t enough_bytes, int64_t *behind)
{
    Inflated inflated = {
        .target = target->buf, .room = target->len, .enough_bytes = enough_bytes, .behind = behind,
    };
    const uint8_t *data = buffer->buf;
    Py_ssize_t nth = 0;
    while (nth < count && inflated.written < enough_bytes) {
        int64_t start = payloads[count + nth], end = payloads[2 * count + nth];
        if (start < 0 || end < start || end > buffer->len) {
            break;
        }
        Payload payload = {.codec = payloads[nth], .at = data + start, .end = data + end};
        if (!add_payload(&inflated, &payload, nth, frames)) {
            break;
        }
        nth++;
    }
    if (!inflated.is_through) {
        inflate_pieces(&inflated);
    }
    if (!inflated.is_through) {
        end_payloads(&inflated, nth);
    }
    return inflated.ended;
}

PyDoc_STRVAR(inflate_doc,
"inflate(buffer, payloads, header, block_bytes, behind_block_bytes, behind_frame_bytes, target, enough_bytes, behind)\n"
"--\n\n"
"Inflate payloads, one behind the other. Other threads may run meanwhile.\n\n"
"Args:\n"
"    buffer: The bytes.\n"
"    payloads: int64, (3, payloads): the codec of each, stored, snappy or lz4, and where it starts and ends.\n"
"    header: What each lz4 frame begins with, its blocks being independent.\n"
"    block_bytes: The most that a block of theirs inflates to.\n"
"    behind_block_bytes, behind_frame_bytes: The checksums behind them, which nobody looks at.\n"
"    target: To be filled.\n"
"    enough_bytes: Once there are so many, no further payload is inflated.\n"
"    behind: int64, one for each payload, to be filled: where it ends in the target.\n\n"
"Returns:\n"
"    How many were inflated. The next one is damaged, of another kind, or has too little room; or these are enough.");

/* What `inflate` takes. */
typedef struct {
    Py_buffer buffer, payloads, target, behind;
    Lz4Frames frames;
    long long enough_bytes;
} Inflation;

static void
end_inflation(Inflation *inflation)
{
    PyBuffer_Release(&inflation->buffer);
    PyBuffer_Release(&inflation->payloads);
    PyBuffer_Release(&inflation->frames.header);
    PyBuffer_Release(&inflation->target);
    PyBuffer_Release(&inflation->behind);
}

/* Whether it could be begun; `end_inflation` ends it. */
static int
begin_inflation(Inflation *inflation, PyObject *arguments)
{
    Lz4Frames *frames = &inflation->frames;
    if (!PyArg_ParseTuple(arguments, "y*y*y*LLLw*Lw*:inflate", &inflation->buffer, &inflation->payloads, &frames->header,
                          &frames->block_bytes, &frames->behind_block_bytes, &frames->behind_frame_bytes,
                          &inflation->target, &inflation->enough_bytes, &inflation->behind)) {
        return 0;
    }
    int are_sizes_sound = inflation->payloads.len == 3 * inflation->behind.len && frames->block_bytes >= 0
        && frames->block_bytes <= UINT32_MAX && frames->behind_block_bytes >= 0
        && frames->behind_block_bytes <= LZ4_WORD_BYTES && frames->behind_frame_bytes >= 0;
    if (!are_sizes_sound) {
        end_inflation(inflation);
        PyErr_SetString(PyExc_ValueError, "three numbers of each payload, and sizes that can be, are wanted");
    }
    return are_sizes_sound;
}

/* Needs no interpreter. */
static Py_ssize_t
run_inflation(const Inflation *inflation)
{
    Py_ssize_t count = inflation->behind.len / (Py_ssize_t)sizeof(int64_t);
    return inflate_payloads(&inflation->frames, &inflation->buffer, inflation->payloads.buf, count, &inflation->target,
                            inflation->enough_bytes, inflation->behind.buf);
}

static PyObject *
inflate(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Inflation inflation;
    if (!begin_inflation(&inflation, arguments)) {
        return NULL;
    }
    Py_ssize_t count;
    Py_BEGIN_ALLOW_THREADS
    count = run_inflation(&inflation);
    Py_END_ALLOW_THREADS
    end_inflation(&inflation);
    return PyLong_FromSsize_t(count);
}

PyDoc_STRVAR(inflation_thread_doc,
"InflationThread(...)\n--\n\n"
"Does what `inflate` does, with the same arguments, in a thread that never waits for the interpreter: Python's threads\n"
"go on beside it, also where the interpreter has its lock. The thread ends by itself.\n\n"
"Contract: used by one thread.");

typedef struct {
    PyObject_HEAD
    Inflation inflation;
    Py_ssize_t count;
    PyThread_type_lock lock; /* which the thread gives back when it is through; NULL: it is, and the buffers are let go */
    long process;
} InflationThread;

/* Python's name for it is not in the stable part of the API. */
#define NO_THREAD ((unsigned long)-1)

static void
run_inflation_thread(void *object)
{
    InflationThread *self = object;
    self->count = run_inflation(&self->inflation);
    PyThread_release_lock(self->lock);
}

/* Wait until the thread is through. A process that was forked has none, so nothing was inflated there. */
static void
join_inflation_thread(InflationThread *self)
{
    if (self->lock == NULL) {
        return;
    }
    if (!PyThread_acquire_lock(self->lock, NOWAIT_LOCK)) {
        if (self->process != (long)getpid()) {
            self->count = 0;
        }
        else {
            Py_BEGIN_ALLOW_THREADS
            PyThread_acquire_lock(self->lock, WAIT_LOCK);
            Py_END_ALLOW_THREADS
        }
    }
    PyThread_free_lock(self->lock);
    self->lock = NULL;
    end_inflation(&self->inflation);
}

static PyObject *
inflation_thread_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords))
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    InflationThread *self = (InflationThread *)allocate(type, 0);
    if (self == NULL || !begin_inflation(&self->inflation, arguments)) {
        Py_XDECREF(self);
        return NULL;
    }
    self->process = (long)getpid();
    self->lock = PyThread_allocate_lock();
    if (self->lock == NULL) {
        end_inflation(&self->inflation);
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    if (PyThread_start_new_thread(run_inflation_thread, self) == NO_THREAD) {
        run_inflation_thread(self); /* the system has no thread left */
    }
    return (PyObject *)self;
}

PyDoc_STRVAR(inflation_thread_wait_doc,
"wait()\n--\n\n"
"Wait until the thread is through.\n\n"
"Returns:\n"
"    What `inflate` returns. 0 in a process that was forked before the thread was through.");

static PyObject *
inflation_thread_wait(PyObject *self, PyObject *Py_UNUSED(nothing))
{
    join_inflation_thread((InflationThread *)self);
    return PyLong_FromSsize_t(((InflationThread *)self)->count);
}

static void
inflation_thread_dealloc(PyObject *self)
{
    join_inflation_thread((InflationThread *)self);
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyMethodDef inflation_thread_methods[] = {
    {"wait", inflation_thread_wait, METH_NOARGS, inflation_thread_wait_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot inflation_thread_slots[] = {
    {Py_tp_doc, (void *)inflation_thread_doc},
    {Py_tp_new, inflation_thread_new},
    {Py_tp_methods, inflation_thread_methods},
    {Py_tp_dealloc, inflation_thread_dealloc},
    {0, NULL},
};

static PyType_Spec inflation_thread_spec = {
    .name = "kwire._speedups.InflationThread",
    .basicsize = sizeof(InflationThread),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = inflation_thread_slots,
};

/* --- copying ----------------------------------------------------------------------------------------------- */

PyDoc_STRVAR(gather_doc,
"gather(buffer, starts, lengths, edges, data)\n--\n\n"
"Copy fields, one behind the other.\n\n"
"Args:\n"
"    buffer: The bytes.\n"
"    starts, lengths: int64, one for each field; a negative length is null, and takes no room.\n"
"    edges: int32, one more, to be filled: where each field starts in `data`, and where the last one ends.\n"
"    data: To be filled; as large as all fields.\n\n"
"Raises:\n"
"    ValueError: A field lies outside of the buffer, or they have more or less room than they take.");

static int
copy_fields(const Py_buffer *buffer, const int64_t *starts, const int64_t *lengths, Py_ssize_t count, int32_t *edges,
            Py_buffer *data)
{
    int64_t at = 0;
    for (Py_ssize_t nth = 0; nth < count; nth++) {
        int64_t start = starts[nth], length = lengths[nth];
        length = length < 0 ? 0 : length;
        edges[nth] = (int32_t)at;
        if (length > data->len - at || (length && (start < 0 || start > buffer->len - length))) {
            return 0;
        }
        memcpy((char *)data->buf + at, (const char *)buffer->buf + (length ? start : 0), length);
        at += length;
    }
    edges[count] = (int32_t)at;
    return at == data->len;
}

static PyObject *
gather(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer buffer, starts, lengths, edges, data;
    if (!PyArg_ParseTuple(arguments, "y*y*y*w*w*:gather", &buffer, &starts, &lengths, &edges, &data)) {
        return NULL;
    }
    const Py_ssize_t size_bytes = sizeof(int64_t);
    Py_ssize_t count = starts.len / size_bytes;
    int have_room = lengths.len / size_bytes == count && edges.len / (Py_ssize_t)sizeof(int32_t) == count + 1
        && data.len <= INT32_MAX && copy_fields(&buffer, starts.buf, lengths.buf, count, edges.buf, &data);
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&lengths);
    PyBuffer_Release(&edges);
    PyBuffer_Release(&data);
    return none_or_error(have_room, "fields lie outside of the buffer, or are not as large as their room");
}

PyDoc_STRVAR(copies_doc,
"copies(buffer, starts, lengths)\n--\n\n"
"Args:\n"
"    buffer: The bytes.\n"
"    starts, lengths: int64, one for each field; a negative length is null.\n\n"
"Returns:\n"
"    A list: each field as bytes, or None.\n\n"
"Raises:\n"
"    ValueError: A field lies outside of the buffer.");

/* Whether these bytes lie in the buffer; a negative length is null, and lies nowhere. */
static int
lie_inside(const Py_buffer *buffer, int64_t start, int64_t length)
{
    if (length < 0 || (start >= 0 && start <= buffer->len - length)) {
        return 1;
    }
    PyErr_SetString(PyExc_ValueError, "a field lies outside of the buffer");
    return 0;
}

static PyObject *
copy_of(const Py_buffer *buffer, int64_t start, int64_t length)
{
    if (!lie_inside(buffer, start, length)) {
        return NULL;
    }
    return length < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize((const char *)buffer->buf + start, length);
}

static PyObject *
list_of_copies(const Py_buffer *buffer, const int64_t *starts, const int64_t *lengths, Py_ssize_t count)
{
    PyObject *list = PyList_New(count);
    for (Py_ssize_t nth = 0; list != NULL && nth < count; nth++) {
        PyObject *copy = copy_of(buffer, starts[nth], lengths[nth]);
        if (copy == NULL || PyList_SetItem(list, nth, copy) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *
copies(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer buffer, starts, lengths;
    if (!PyArg_ParseTuple(arguments, "y*y*y*:copies", &buffer, &starts, &lengths)) {
        return NULL;
    }
    PyObject *list = NULL;
    if (starts.len == lengths.len) {
        list = list_of_copies(&buffer, starts.buf, lengths.buf, starts.len / (Py_ssize_t)sizeof(int64_t));
    }
    else {
        PyErr_SetString(PyExc_ValueError, "as many starts as lengths are wanted");
    }
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&lengths);
    return list;
}

/* --- making records ---------------------------------------------------------------------------------------- */

/* What records are made from: these buffers, and behind them what is the same for all. Those of headers are last. */
enum {
    BYTES, OFFSETS, TIMESTAMPS, TIMESTAMP_TYPES, LEADER_EPOCHS, KEY_STARTS, KEY_LENGTHS, VALUE_STARTS, VALUE_LENGTHS,
    WITHOUT_HEADERS,
    HEADER_FIRST = WITHOUT_HEADERS, HEADER_KEY_STARTS, HEADER_KEY_LENGTHS, HEADER_VALUE_STARTS, HEADER_VALUE_LENGTHS,
    COLUMNS
};
enum { RECORD_FIELDS = 11, HEADER_FIELDS = 2 };

/* The object that stands for a number, for as long as the same number comes again. */
typedef struct {
    int64_t number;
    PyObject *object;
} SameNumber;

/* The last header at a place among those of a record: mostly the next record has the same name there, and often the
   same value. */
typedef struct {
    const char *key;
    const char *value;
    int64_t key_length;
    int64_t value_length;
    PyObject *header;
} SameHeader;

enum { SAME_HEADERS = 16, SAME_VALUE_BYTES = 64 };

typedef struct {
    PyObject_HEAD
    PyObject *record_type, *header_type, *type_of, *text_of, *topic, *partition, *keys, *values, *no_headers;
    allocfunc new_record, new_header;
    Py_buffer columns[COLUMNS];
    int held;     /* so many of the columns */
    int is_busy;  /* Making a record may run Python code, which must not ask for another one. */
    Py_ssize_t start, row, stop, headers;
    SameNumber timestamp, timestamp_type, leader_epoch, key_length, value_length;
    SameHeader same_headers[SAME_HEADERS];
    PyObject *last_headers;
} RecordIterator;

/* The number in a row of a column. Columns may be strided, as numpy's are that were transposed. */
#define NUMBER(records, column, type, row) \
    (*(const type *)((const char *)(records)->columns[column].buf + (row) * (records)->columns[column].strides[0]))
#define BYTES_AT(records, place) ((const char *)(records)->columns[BYTES].buf + (place))

static int
records_traverse(PyObject *self, visitproc visit, void *arg)
{
    RecordIterator *records = (RecordIterator *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(records->record_type);
    Py_VISIT(records->header_type);
    Py_VISIT(records->type_of);
    Py_VISIT(records->text_of);
    Py_VISIT(records->topic);
    Py_VISIT(records->partition);
    Py_VISIT(records->keys);
    Py_VISIT(records->values);
    for (int column = 0; column < records->held; column++) {
        Py_VISIT(records->columns[column].obj);
    }
    return 0;
}

static int
records_clear(PyObject *self)
{
    RecordIterator *records = (RecordIterator *)self;
    records->row = records->stop;
    while (records->held) {
        PyBuffer_Release(&records->columns[--records->held]);
    }
    Py_CLEAR(records->record_type);
    Py_CLEAR(records->header_type);
    Py_CLEAR(records->type_of);
    Py_CLEAR(records->text_of);
    Py_CLEAR(records->topic);
    Py_CLEAR(records->partition);
    Py_CLEAR(records->keys);
    Py_CLEAR(records->values);
    Py_CLEAR(records->no_headers);
    Py_CLEAR(records->timestamp.object);
    Py_CLEAR(records->timestamp_type.object);
    Py_CLEAR(records->leader_epoch.object);
    Py_CLEAR(records->key_length.object);
    Py_CLEAR(records->value_length.object);
    Py_CLEAR(records->last_headers);
    for (int nth = 0; nth < SAME_HEADERS; nth++) {
        Py_CLEAR(records->same_headers[nth].header);
    }
    return 0;
}

static void
records_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    records_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* Whether a column has numbers of that size, and at least so many. */
static int
has_numbers(const RecordIterator *records, int column, Py_ssize_t count, Py_ssize_t size_bytes)
{
    const Py_buffer *numbers = &records->columns[column];
    if (numbers->ndim == 1 && numbers->itemsize == size_bytes && numbers->shape[0] >= count) {
        return 1;
    }
    PyErr_Format(PyExc_ValueError, "column %d has to have %zd numbers of %zd bytes", column, count, size_bytes);
    return 0;
}

static int
check_columns(RecordIterator *records)
{
    for (int column = OFFSETS; column < WITHOUT_HEADERS; column++) {
        Py_ssize_t size_bytes = column == TIMESTAMP_TYPES ? sizeof(int8_t)
            : column == LEADER_EPOCHS ? sizeof(int32_t) : sizeof(int64_t);
        if (!has_numbers(records, column, records->stop, size_bytes)) {
            return 0;
        }
    }
    if (records->held == WITHOUT_HEADERS) {
        return 1;
    }
    if (!has_numbers(records, HEADER_FIRST, records->stop + 1, sizeof(int64_t))) {
        return 0;
    }
    records->headers = records->columns[HEADER_KEY_STARTS].len / (Py_ssize_t)sizeof(int64_t);
    for (int column = HEADER_KEY_STARTS; column < COLUMNS; column++) {
        if (!has_numbers(records, column, records->headers, sizeof(int64_t))) {
            return 0;
        }
    }
    return 1;
}

static int
hold_columns(RecordIterator *records, PyObject *columns)
{
    Py_ssize_t count = PyTuple_Size(columns);
    if (count != WITHOUT_HEADERS && count != COLUMNS) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "%zd columns", count);
        }
        return 0;
    }
    for (; records->held < count; records->held++) {
        PyObject *column = PyTuple_GetItem(columns, records->held);
        int flags = records->held == BYTES ? PyBUF_SIMPLE : PyBUF_STRIDES;
        if (PyObject_GetBuffer(column, &records->columns[records->held], flags) < 0) {
            return 0;
        }
    }
    return check_columns(records);
}

PyDoc_STRVAR(records_doc,
"RecordIterator(record_type, header_type, type_of, text_of, topic, partition, keys, values, start, stop, columns)\n"
"--\n\n"
"Makes records, one by one as they are asked for.\n\n"
"Args:\n"
"    record_type, header_type: `Record` and `Header`, named tuples.\n"
"    type_of: From the number of a timestamp type to what stands for it.\n"
"    text_of: From bytes that are no UTF-8 to text.\n"
"    topic, partition: Of all records.\n"
"    keys, values: One for each record; None: the bytes.\n"
"    start, stop: Which rows of the columns.\n"
"    columns: A tuple of what `RecordColumns` has: the buffer, offsets, timestamps, timestamp types (int8), leader\n"
"        epochs (int32), starts and lengths of keys and values; where there are headers, `first` and the starts and\n"
"        lengths of `HeaderColumns` behind them. All are int64, but for those two.\n\n"
"Raises:\n"
"    ValueError: A column is too short, or says that something lies outside of the buffer.");

static PyObject *
records_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(names))
{
    PyObject *record_type, *header_type, *type_of, *text_of, *topic, *partition, *keys, *values, *columns;
    Py_ssize_t start, stop;
    if (!PyArg_ParseTuple(arguments, "O!O!O!OOOOOnnO!:RecordIterator", &PyType_Type, &record_type, &PyType_Type,
                          &header_type, &PyDict_Type, &type_of, &text_of, &topic, &partition, &keys, &values, &start,
                          &stop, &PyTuple_Type, &columns)) {
        return NULL;
    }
    if (start < 0 || stop < start || stop == PY_SSIZE_T_MAX) {
        PyErr_Format(PyExc_ValueError, "rows %zd to %zd", start, stop);
        return NULL;
    }
    if (!PyType_IsSubtype((PyTypeObject *)record_type, &PyTuple_Type)
        || !PyType_IsSubtype((PyTypeObject *)header_type, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "records and headers have to be tuples");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    RecordIterator *records = (RecordIterator *)allocate(type, 0);
    if (records == NULL) {
        return NULL;
    }
    records->record_type = Py_NewRef(record_type);
    records->header_type = Py_NewRef(header_type);
    records->type_of = Py_NewRef(type_of);
    records->text_of = Py_NewRef(text_of);
    records->topic = Py_NewRef(topic);
    records->partition = Py_NewRef(partition);
    records->keys = keys == Py_None ? NULL : Py_NewRef(keys);
    records->values = values == Py_None ? NULL : Py_NewRef(values);
    records->new_record = (allocfunc)PyType_GetSlot((PyTypeObject *)record_type, Py_tp_alloc);
    records->new_header = (allocfunc)PyType_GetSlot((PyTypeObject *)header_type, Py_tp_alloc);
    records->start = records->row = start;
    records->stop = stop;
    records->no_headers = PyTuple_New(0);
    if (records->no_headers == NULL || !hold_columns(records, columns)) {
        Py_DECREF(records);
        return NULL;
    }
    return (PyObject *)records;
}

/* A key or a value: the bytes, or what was made of them. */
static PyObject *
field_of(const RecordIterator *records, PyObject *deserialized, int64_t start, int64_t length)
{
    return deserialized == NULL ? copy_of(&records->columns[BYTES], start, length)
        : PySequence_GetItem(deserialized, records->row - records->start);
}

/* Whether the number has an object from now on; takes the reference. */
static int
remember(SameNumber *same, int64_t number, PyObject *object)
{
    Py_XDECREF(same->object);
    *same = (SameNumber){number, object};
    return object != NULL;
}

static PyObject *
number_of(SameNumber *same, int64_t number)
{
    if ((same->object == NULL || same->number != number) && !remember(same, number, PyLong_FromLongLong(number))) {
        return NULL;
    }
    return Py_NewRef(same->object);
}

static PyObject *
epoch_of(SameNumber *same, int64_t epoch)
{
    return epoch < 0 ? Py_NewRef(Py_None) : number_of(same, epoch);
}

static PyObject *
timestamp_type_of(RecordIterator *records, int64_t number)
{
    SameNumber *same = &records->timestamp_type;
    if (same->object == NULL || same->number != number) {
        PyObject *key = PyLong_FromLongLong(number);
        int is_found = remember(same, number, key == NULL ? NULL : PyObject_GetItem(records->type_of, key));
        Py_XDECREF(key);
        if (!is_found) {
            return NULL;
        }
    }
    return Py_NewRef(same->object);
}

static PyObject *
header_name(const RecordIterator *records, const char *key, int64_t length)
{
    PyObject *name = PyUnicode_DecodeUTF8(key, length, "strict");
    if (name != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        return name;
    }
    PyErr_Clear();
    /* Not by the format "y" with a length: what the headers of 3.13 make of that call fails in 3.12. */
    PyObject *raw = PyBytes_FromStringAndSize(key, (Py_ssize_t)length);
    if (raw == NULL) {
        return NULL;
    }
    name = PyObject_CallFunctionObjArgs(records->text_of, raw, NULL);
    Py_DECREF(raw);
    return name;
}

/* From Python 3.14 on a tuple keeps its hash, and -1 until somebody asks. Its type's `tp_alloc` leaves 0 there, which
   would be taken for the hash of each. */
typedef struct {
    PyVarObject head;
    Py_hash_t hash;
} TupleWithHash;

static int tuples_keep_hash;

/* A tuple, or an instance of a class of tuples that has no fields of its own. Until it is filled the collector is not
   shown it, nor is whoever asks the collector for all objects. */
static PyObject *
new_tuple(allocfunc allocate, PyObject *type, Py_ssize_t count)
{
    PyObject *tuple = allocate((PyTypeObject *)type, count);
    if (tuple == NULL) {
        return NULL;
    }
    PyObject_GC_UnTrack(tuple);
    if (tuples_keep_hash) {
        ((TupleWithHash *)tuple)->hash = -1;
    }
    return tuple;
}

/* Puts what must not be NULL into a new tuple; that takes the reference. */
static inline int
set_item(PyObject *tuple, Py_ssize_t place, PyObject *item)
{
    return item != NULL && PyTuple_SetItem(tuple, place, item) == 0;
}

static PyObject *
new_header(RecordIterator *records, SameHeader *same, const char *key, int64_t key_length, PyObject *value)
{
    PyObject *header = value == NULL ? NULL : new_tuple(records->new_header, records->header_type, HEADER_FIELDS);
    if (header == NULL) {
        Py_XDECREF(value);
        return NULL;
    }
    int is_same_name = same->header != NULL && same->key_length == key_length && !memcmp(same->key, key, key_length);
    PyObject *name = is_same_name ? Py_XNewRef(PyTuple_GetItem(same->header, 0)) : header_name(records, key, key_length);
    if (!set_item(header, 1, value) || !set_item(header, 0, name)) {
        Py_DECREF(header);
        return NULL;
    }
    return header; /* of text and bytes, which refer to nothing: the collector need not look at it */
}

/* One header; `is_last` is set to whether it is the very one that the last record has there. */
static PyObject *
header_at(RecordIterator *records, int64_t at, Py_ssize_t nth, int *is_last)
{
    int64_t key_start = NUMBER(records, HEADER_KEY_STARTS, int64_t, at);
    int64_t key_length = NUMBER(records, HEADER_KEY_LENGTHS, int64_t, at);
    int64_t value_start = NUMBER(records, HEADER_VALUE_STARTS, int64_t, at);
    int64_t value_length = NUMBER(records, HEADER_VALUE_LENGTHS, int64_t, at);
    key_length = key_length < 0 ? 0 : key_length;
    const Py_buffer *bytes = &records->columns[BYTES];
    if (!lie_inside(bytes, key_start, key_length) || !lie_inside(bytes, value_start, value_length)) {
        return NULL;
    }
    const char *key = BYTES_AT(records, key_start), *value = value_length < 0 ? NULL : BYTES_AT(records, value_start);
    SameHeader *same = &records->same_headers[nth % SAME_HEADERS];
    *is_last = same->header != NULL && same->key_length == key_length && same->value_length == value_length
        && value_length <= SAME_VALUE_BYTES && !memcmp(same->key, key, key_length)
        && (value_length <= 0 || !memcmp(same->value, value, value_length));
    if (*is_last) {
        return Py_NewRef(same->header);
    }
    PyObject *header = new_header(records, same, key, key_length, copy_of(bytes, value_start, value_length));
    if (header != NULL) {
        Py_XDECREF(same->header);
        *same = (SameHeader){key, value, key_length, value_length, Py_NewRef(header)};
    }
    return header;
}

static PyObject *
headers_of(RecordIterator *records)
{
    int64_t start = 0, behind = 0;
    if (records->held == COLUMNS) {
        start = NUMBER(records, HEADER_FIRST, int64_t, records->row);
        behind = NUMBER(records, HEADER_FIRST, int64_t, records->row + 1);
    }
    if (start == behind) {
        return Py_NewRef(records->no_headers);
    }
    if (start < 0 || behind < start || behind > records->headers) {
        PyErr_SetString(PyExc_ValueError, "a record has headers that there are not");
        return NULL;
    }
    Py_ssize_t count = behind - start;
    PyObject *headers = PyTuple_New(count);
    if (headers != NULL) {
        PyObject_GC_UnTrack(headers);
    }
    int are_last = headers != NULL && records->last_headers != NULL && PyTuple_Size(records->last_headers) == count;
    for (Py_ssize_t nth = 0; headers != NULL && nth < count; nth++) {
        int is_last = 0;
        PyObject *header = header_at(records, start + nth, nth, &is_last);
        if (!set_item(headers, nth, header)) {
            Py_CLEAR(headers);
        }
        else {
            are_last &= is_last && nth < SAME_HEADERS;
        }
    }
    if (headers != NULL && are_last) {
        Py_DECREF(headers);
        return Py_NewRef(records->last_headers);
    }
    Py_XDECREF(records->last_headers);
    records->last_headers = Py_XNewRef(headers);
    return headers;
}

static int
fill_record(RecordIterator *records, PyObject *record)
{
    Py_ssize_t row = records->row;
    int64_t key_start = NUMBER(records, KEY_STARTS, int64_t, row);
    int64_t key_length = NUMBER(records, KEY_LENGTHS, int64_t, row);
    int64_t value_start = NUMBER(records, VALUE_STARTS, int64_t, row);
    int64_t value_length = NUMBER(records, VALUE_LENGTHS, int64_t, row);
    return set_item(record, 0, Py_NewRef(records->topic))
        && set_item(record, 1, Py_NewRef(records->partition))
        && set_item(record, 2, PyLong_FromLongLong(NUMBER(records, OFFSETS, int64_t, row)))
        && set_item(record, 3, number_of(&records->timestamp, NUMBER(records, TIMESTAMPS, int64_t, row)))
        && set_item(record, 4, timestamp_type_of(records, NUMBER(records, TIMESTAMP_TYPES, int8_t, row)))
        && set_item(record, 5, field_of(records, records->keys, key_start, key_length))
        && set_item(record, 6, field_of(records, records->values, value_start, value_length))
        && set_item(record, 7, headers_of(records))
        && set_item(record, 8, epoch_of(&records->leader_epoch, NUMBER(records, LEADER_EPOCHS, int32_t, row)))
        && set_item(record, 9, number_of(&records->key_length, key_length))
        && set_item(record, 10, number_of(&records->value_length, value_length));
}

static PyObject *
next_record(RecordIterator *records)
{
    PyObject *record = new_tuple(records->new_record, records->record_type, RECORD_FIELDS);
    if (record == NULL || !fill_record(records, record)) {
        Py_XDECREF(record);
        return NULL;
    }
    if (records->keys != NULL || records->values != NULL) {
        /* Else it has bytes, text and numbers alone, which refer to nothing. So the collector need not look at it,
           again and again, while a program keeps millions of them. */
        PyObject_GC_Track(record);
    }
    records->row++;
    return record;
}

static PyObject *
records_next(PyObject *self)
{
    RecordIterator *records = (RecordIterator *)self;
    PyObject *record = NULL;
    Py_BEGIN_CRITICAL_SECTION(self);
    if (records->is_busy) {
        PyErr_SetString(PyExc_ValueError, "a record is being made already");
    }
    else if (records->row >= records->stop) {
        records_clear(self);
    }
    else {
        records->is_busy = 1;
        record = next_record(records);
        records->is_busy = 0;
    }
    Py_END_CRITICAL_SECTION();
    return record;
}

PyDoc_STRVAR(records_length_hint_doc, "How many records are left.");

static PyObject *
records_length_hint(PyObject *self, PyObject *Py_UNUSED(none))
{
    RecordIterator *records = (RecordIterator *)self;
    Py_ssize_t left = 0;
    Py_BEGIN_CRITICAL_SECTION(self);
    left = records->stop - records->row;
    Py_END_CRITICAL_SECTION();
    return PyLong_FromSsize_t(left);
}

static PyMethodDef records_methods[] = {
    {"__length_hint__", records_length_hint, METH_NOARGS, records_length_hint_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot records_slots[] = {
    {Py_tp_doc, (void *)records_doc},
    {Py_tp_new, records_new},
    {Py_tp_methods, records_methods},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, records_next},
    {Py_tp_traverse, records_traverse},
    {Py_tp_clear, records_clear},
    {Py_tp_dealloc, records_dealloc},
    {0, NULL},
};

static PyType_Spec records_spec = {
    .name = "kwire._speedups.RecordIterator",
    .basicsize = sizeof(RecordIterator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = records_slots,
};

/* --- the module -------------------------------------------------------------------------------------------- */

/* Raised with each change of what is taken or answered here, and in `kwire/speedups.py`: a clone that is brought up to
   date may have an older binary. */
enum { FORM = 7 };

/* Whether tuples keep their hash is not in the stable part of the API; how large they are is. */
static int
look_at_tuples(void)
{
    PyObject *size = PyObject_GetAttrString((PyObject *)&PyTuple_Type, "__basicsize__");
    Py_ssize_t size_bytes = size == NULL ? -1 : PyLong_AsSsize_t(size);
    Py_XDECREF(size);
    tuples_keep_hash = size_bytes >= (Py_ssize_t)sizeof(TupleWithHash);
    return size_bytes < 0 ? -1 : 0;
}

/* Whether a tuple that is made here has the hash of one that Python makes. If it has not, perhaps in a later Python,
   the module cannot be imported, and kwire does without it. */
static int
check_hash(void)
{
    PyObject *type = PyObject_CallFunction((PyObject *)&PyType_Type, "s(O){s()}", "Pair", &PyTuple_Type, "__slots__");
    allocfunc allocate = type == NULL ? NULL : (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
    PyObject *made = allocate == NULL ? NULL : new_tuple(allocate, type, 2);
    PyObject *plain = PyTuple_Pack(2, Py_None, Py_None);
    int is_checked = made != NULL && plain != NULL && set_item(made, 0, Py_NewRef(Py_None))
        && set_item(made, 1, Py_NewRef(Py_None));
    if (is_checked && PyObject_Hash(made) != PyObject_Hash(plain)) {
        PyErr_SetString(PyExc_ImportError, "tuples of this Python are made in another way");
        is_checked = 0;
    }
    Py_XDECREF(plain);
    Py_XDECREF(made);
    Py_XDECREF(type);
    return is_checked ? 0 : -1;
}

static int
add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    int result = type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)type);
    Py_XDECREF(type);
    return result;
}

static int
fill_module(PyObject *module)
{
    fill_crc_of_byte();
    fill_snappy_tags();
    if (look_at_tuples() < 0 || check_hash() < 0) {
        return -1;
    }
    if (add_type(module, &records_spec) < 0 || add_type(module, &inflation_thread_spec) < 0) {
        return -1;
    }
    return PyModule_AddIntConstant(module, "FORM", FORM);
}

static PyMethodDef methods[] = {
    {"room", room, METH_VARARGS, room_doc},
    {"find_batches", find_batches, METH_VARARGS, find_batches_doc},
    {"sum_and_union", sum_and_union, METH_VARARGS, sum_and_union_doc},
    {"payloads", payloads, METH_VARARGS, payloads_doc},
    {"read_records", read_records, METH_VARARGS, read_records_doc},
    {"inflate", inflate, METH_VARARGS, inflate_doc},
    {"gather", gather, METH_VARARGS, gather_doc},
    {"copies", copies, METH_VARARGS, copies_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, fill_module},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kwire._speedups",
    .m_doc = "The loops over records that take most of a consumer's time; see `kwire.speedups`.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC
PyInit__speedups(void)
{
    return PyModuleDef_Init(&module_definition);
}
