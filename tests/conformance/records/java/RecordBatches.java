import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.zip.CRC32C;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Record batches by Kafka's own client code, for the conformance tests of the records crate.
 *
 * <pre>
 * java -cp 'libs/*' RecordBatches.java write DIR       writes golden batches and what they hold
 * java -cp 'libs/*' RecordBatches.java dump FILE...    prints what batches hold
 * </pre>
 *
 * The text form of a batch is told in the README beside the golden files.
 */
public final class RecordBatches {
    private static final long T0 = 1_700_000_000_000L;
    private static final Header[] NO_HEADERS = {};

    private record Entry(long offset, long timestamp, byte[] key, byte[] value, Header[] headers) {
    }

    private record Producer(long id, short epoch, int sequence, boolean transactional) {
        static final Producer NONE = new Producer(-1, (short) -1, -1, false);
    }

    public static void main(String[] args) throws IOException {
        if (args.length == 2 && args[0].equals("write")) {
            write(Path.of(args[1]));
        } else if (args.length >= 2 && args[0].equals("dump")) {
            for (String file : Arrays.copyOfRange(args, 1, args.length)) {
                System.out.println("file " + Path.of(file).getFileName());
                System.out.print(dump(ByteBuffer.wrap(Files.readAllBytes(Path.of(file)))));
            }
        } else {
            System.err.println("usage: RecordBatches write DIR | dump FILE...");
            System.exit(2);
        }
    }

    private static void write(Path folder) throws IOException {
        Files.createDirectories(folder);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            save(folder, "v2-" + codec, v2(Compression.of(codec).build(), entries(2, !codec.equals("none"))));
        }
        save(folder, "v2-gzip-level-1", v2(Compression.gzip().level(1).build(), entries(2, true)));
        save(folder, "v2-lz4-level-17", v2(Compression.lz4().level(17).build(), entries(2, true)));
        save(folder, "v2-lz4-stored", v2(Compression.lz4().build(), List.of(incompressible())));
        save(folder, "v2-zstd-level-22", v2(Compression.zstd().level(22).build(), entries(2, true)));
        save(folder, "v2-zstd-level-minus-5", v2(Compression.zstd().level(-5).build(), entries(2, true)));
        save(folder, "v2-log-append-time", build((byte) 2, Compression.snappy().build(),
            TimestampType.LOG_APPEND_TIME, T0 + 99, Producer.NONE, -1, -1, entries(2, false)));
        save(folder, "v2-idempotent", build((byte) 2, Compression.NONE, TimestampType.CREATE_TIME, -1,
            new Producer(4711, (short) 3, Integer.MAX_VALUE - 2, false), 8, -1, entries(2, false)));
        save(folder, "v2-transactional", build((byte) 2, Compression.zstd().build(),
            TimestampType.CREATE_TIME, -1, new Producer(Long.MAX_VALUE, (short) 0, 0, true), 8, -1,
            entries(2, true)));
        save(folder, "v2-delete-horizon", build((byte) 2, Compression.lz4().build(),
            TimestampType.CREATE_TIME, -1, Producer.NONE, 2, T0 + 7_000, entries(2, false)));
        save(folder, "v2-compacted", compacted());
        save(folder, "v2-empty", empty());
        save(folder, "v2-markers", markers());
        for (byte magic = 0; magic < 2; magic++) {
            for (String codec : List.of("none", "gzip", "snappy", "lz4")) {
                TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
                save(folder, "v" + magic + "-" + codec, build(magic, Compression.of(codec).build(),
                    type, -1, Producer.NONE, -1, -1, entries(magic, !codec.equals("none"))));
            }
        }
        save(folder, "v1-log-append-time", build((byte) 1, Compression.gzip().build(),
            TimestampType.LOG_APPEND_TIME, T0 + 77, Producer.NONE, -1, -1, entries(1, false)));
        save(folder, "mixed-versions", concat(
            build((byte) 0, Compression.of("lz4").build(), TimestampType.NO_TIMESTAMP_TYPE, -1, Producer.NONE, -1, -1,
                List.of(entry(0, "v0 a"), entry(1, "v0 b"))),
            build((byte) 1, Compression.of("snappy").build(), TimestampType.CREATE_TIME, -1, Producer.NONE, -1, -1,
                List.of(entry(2, "v1 a"), entry(3, "v1 b"))),
            v2(Compression.zstd().build(), List.of(entry(4, "v2 a"), entry(5, "v2 b")))));
    }

    /** Records that touch every corner of the format that the magic has. */
    private static List<Entry> entries(int magic, boolean large) {
        List<Entry> out = new ArrayList<>();
        out.add(new Entry(100, T0, null, new byte[0], NO_HEADERS));
        out.add(new Entry(101, T0 + 1, utf8("key-1"), null, NO_HEADERS));
        out.add(new Entry(102, T0 + 64, new byte[0], utf8("value-2"), magic < 2 ? NO_HEADERS : new Header[] {
            new RecordHeader("a", utf8("1")), new RecordHeader("b", (byte[]) null),
            new RecordHeader("a", utf8("2")), new RecordHeader("", new byte[0]),
            new RecordHeader("ключ", new byte[] {(byte) 0xff, 0})}));
        byte[] all = new byte[256];
        for (int i = 0; i < all.length; i++) {
            all[i] = (byte) i;
        }
        out.add(new Entry(103, T0 - 5_000, new byte[] {(byte) 0xff, (byte) 0xfe, 0}, all, NO_HEADERS));
        out.add(new Entry(104, T0 + (1L << 33), null, null, NO_HEADERS));
        out.add(new Entry(105, T0 + 2, utf8("k".repeat(70)), utf8("nine thousand ".repeat(9)), NO_HEADERS));
        if (large) {
            StringBuilder lines = new StringBuilder();
            while (lines.length() < 100_000) {
                lines.append("the river bed where the water runs deepest, line ").append(lines.length() % 31).append('\n');
            }
            out.add(new Entry(106, T0 + 3, utf8("large"), utf8(lines.toString()), NO_HEADERS));
            for (int i = 0; i < 20; i++) {
                out.add(new Entry(107 + i, T0 + i, utf8("k" + i % 10), utf8("small value " + i), NO_HEADERS));
            }
        }
        return out;
    }

    private static Entry entry(long offset, String value) {
        return new Entry(offset, T0 + offset, null, utf8(value), NO_HEADERS);
    }

    private static Entry incompressible() {
        byte[] value = new byte[1000];
        new java.util.Random(42).nextBytes(value);
        return new Entry(0, T0, null, value, NO_HEADERS);
    }

    private static byte[] v2(Compression compression, List<Entry> entries) {
        return build((byte) 2, compression, TimestampType.CREATE_TIME, -1, Producer.NONE, -1, -1, entries);
    }

    private static byte[] build(byte magic, Compression compression, TimestampType type, long appendTime,
                                Producer producer, int leaderEpoch, long deleteHorizon, List<Entry> entries) {
        ByteBufferOutputStream out = new ByteBufferOutputStream(1 << 20);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(out, magic, compression, type,
            entries.get(0).offset(), appendTime, producer.id(), producer.epoch(), producer.sequence(),
            producer.transactional(), false, leaderEpoch, 1 << 20, deleteHorizon);
        for (Entry entry : entries) {
            builder.appendWithOffset(entry.offset(), entry.timestamp(), entry.key(), entry.value(), entry.headers());
        }
        return bytes(builder.build());
    }

    /** A batch with holes, and an end that was compacted away. */
    private static byte[] compacted() {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(1024), (byte) 2,
            Compression.gzip().build(), TimestampType.CREATE_TIME, 1000, -1, -1, (short) -1, -1, false, false, 5, 1024, -1);
        builder.appendWithOffset(1003, T0, utf8("a"), utf8("first left"), NO_HEADERS);
        builder.appendWithOffset(1070, T0 + 1, utf8("b"), utf8("second left"), NO_HEADERS);
        builder.overrideLastOffset(1999);
        return bytes(builder.build());
    }

    /** A batch that lost all its records: kept for its offsets and sequences. */
    private static byte[] empty() {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(buffer, (byte) 2, 77L, (short) 1, 50, 2000, 2099, 6,
            TimestampType.CREATE_TIME, T0, true, false);
        return buffer.array();
    }

    private static byte[] markers() {
        LeaderChangeMessage change = new LeaderChangeMessage().setLeaderId(1);
        return concat(
            bytes(MemoryRecords.withEndTransactionMarker(10, T0, 4, 4711, (short) 3,
                new EndTransactionMarker(ControlRecordType.COMMIT, 17))),
            bytes(MemoryRecords.withEndTransactionMarker(11, T0 + 1, 4, 4711, (short) 4,
                new EndTransactionMarker(ControlRecordType.ABORT, 18))),
            bytes(MemoryRecords.withLeaderChangeMessage(12, T0 + 2, 5, ByteBuffer.allocate(256), change)));
    }

    private static String dump(ByteBuffer buffer) {
        StringBuilder out = new StringBuilder();
        MemoryRecords records = MemoryRecords.readableRecords(buffer);
        int seen = 0;
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            seen += batch.sizeInBytes();
            dumpBatch(batch, out);
        }
        if (seen != buffer.capacity()) {
            throw new IllegalStateException(buffer.capacity() - seen + " bytes are left after the last batch");
        }
        return out.toString();
    }

    private static void dumpBatch(MutableRecordBatch batch, StringBuilder out) {
        boolean legacy = batch.magic() < 2;
        out.append(String.format(Locale.ROOT,
            "batch magic=%d base=%d last=%d codec=%s timestamps=%s producer=%d/%d/%d transactional=%d control=%d leader_epoch=%d max_timestamp=%d%n",
            batch.magic(), batch.baseOffset(), batch.lastOffset(), batch.compressionType().name,
            batch.timestampType().name, batch.producerId(), batch.producerEpoch(), batch.baseSequence(),
            batch.isTransactional() ? 1 : 0, batch.isControlBatch() ? 1 : 0,
            legacy ? -1 : batch.partitionLeaderEpoch(), batch.maxTimestamp()));
        for (Record record : batch) {
            record.ensureValid();
            out.append("record ").append(record.offset()).append(' ').append(record.timestamp());
            out.append(' ').append(text(record.key())).append(' ').append(text(record.value()));
            for (Header header : record.headers()) {
                byte[] value = header.value();
                out.append(' ').append(text(ByteBuffer.wrap(utf8(header.key())))).append(':');
                out.append(text(value == null ? null : ByteBuffer.wrap(value)));
            }
            out.append('\n');
            if (batch.isControlBatch()) {
                short type = ControlRecordType.parseTypeId(record.key());
                boolean marker = type == ControlRecordType.ABORT.type() || type == ControlRecordType.COMMIT.type();
                int epoch = marker ? EndTransactionMarker.deserialize(record).coordinatorEpoch() : -1;
                out.append("marker ").append(type).append(' ').append(epoch).append('\n');
            }
        }
    }

    private static String text(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        if (bytes.length <= 64) {
            return "=" + HexFormat.of().formatHex(bytes);
        }
        CRC32C crc = new CRC32C();
        crc.update(bytes);
        return String.format(Locale.ROOT, "#%d/%08x", bytes.length, crc.getValue());
    }

    private static void save(Path folder, String name, byte[] batches) throws IOException {
        Files.write(folder.resolve(name + ".bin"), batches);
        Files.writeString(folder.resolve(name + ".txt"), dump(ByteBuffer.wrap(batches)));
    }

    private static byte[] bytes(MemoryRecords records) {
        byte[] out = new byte[records.sizeInBytes()];
        records.buffer().duplicate().get(out);
        return out;
    }

    private static byte[] concat(byte[]... parts) {
        ByteBuffer out = ByteBuffer.allocate(Arrays.stream(parts).mapToInt(part -> part.length).sum());
        Arrays.stream(parts).forEach(out::put);
        return out.array();
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
