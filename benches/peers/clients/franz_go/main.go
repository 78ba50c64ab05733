// Command franz_go runs one case of the benchmark of the peers with franz-go.
//
//	franz_go CASE OPTIONS PAYLOADS
//
// CASE is the case as JSON, OPTIONS its settings under franz-go's names (see equal.py), PAYLOADS a
// file with one value per line. It prints the same as every client: records, seconds and CPU
// seconds, or the latency of each record.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	warmUpRecords = 2_000
	warmUpSamples = 500
	idleLimit     = 30 * time.Second
)

type benchCase struct {
	Role       string
	Records    int
	Bootstrap  string
	Topic      string
	Partitions int32
}

type settings struct {
	LingerMs   *int   `json:"ProducerLinger"`
	BatchBytes *int32 `json:"ProducerBatchMaxBytes"`
	Acks       string `json:"RequiredAcks"`
	Idempotent *bool  `json:"idempotent"`
	Codec      string `json:"ProducerBatchCompression"`
	Level      *int   `json:"level"`
	CheckCRCs  *bool  `json:"checkCRCs"`
	Isolation  string `json:"FetchIsolationLevel"`
}

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: franz_go CASE OPTIONS PAYLOADS"))
	}
	var of benchCase
	var with settings
	check(json.Unmarshal([]byte(os.Args[1]), &of))
	check(json.Unmarshal([]byte(os.Args[2]), &with))
	var found map[string]any
	switch of.Role {
	case "produce":
		found = produce(of, with, payloads(os.Args[3]))
	case "consume":
		found = consume(of, with)
	case "latency":
		found = latency(of, with, payloads(os.Args[3])[0])
	case "end_to_end":
		found = endToEnd(of, with, payloads(os.Args[3])[0])
	default:
		fail(fmt.Errorf("unknown role %q: expected produce, consume, latency or end_to_end", of.Role))
	}
	line, err := json.Marshal(found)
	check(err)
	fmt.Println(string(line))
}

func producerOf(of benchCase, with settings) *kgo.Client {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(),
		"lz4":  kgo.Lz4Compression(),
		"zstd": kgo.ZstdCompression(),
	}
	codec, known := codecs[with.Codec]
	if !known || with.Acks != "all" || !*with.Idempotent {
		fail(fmt.Errorf("this program does not support the producer settings %+v", with))
	}
	if with.Level != nil {
		codec = codec.WithLevel(*with.Level)
	}
	return client(
		kgo.SeedBrokers(of.Bootstrap),
		kgo.ProducerLinger(time.Duration(*with.LingerMs)*time.Millisecond),
		kgo.ProducerBatchMaxBytes(*with.BatchBytes),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(codec),
		// Its default limit of 10,000 buffered records is reached before its batches are full.
		kgo.MaxBufferedRecords(1_000_000),
	)
}

func produce(of benchCase, with settings, values [][]byte) map[string]any {
	producer := producerOf(of, with)
	defer producer.Close()
	ctx := context.Background()
	failed := make(chan error, 1)
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	}
	send := func(count int) {
		for number := range count {
			value := values[number%len(values)]
			producer.Produce(ctx, &kgo.Record{Topic: of.Topic, Value: value}, done)
		}
		check(producer.Flush(ctx))
	}
	send(warmUpRecords)
	watch := start()
	send(of.Records - warmUpRecords)
	found := watch.result(of.Records - warmUpRecords)
	select {
	case err := <-failed:
		fail(err)
	default:
	}
	return found
}

func consumerOf(of benchCase, with settings) *kgo.Client {
	if !*with.CheckCRCs || with.Isolation != "read_uncommitted" {
		fail(fmt.Errorf("this program does not support the consumer settings %+v", with))
	}
	from := map[int32]kgo.Offset{}
	for partition := range of.Partitions {
		// Nothing is deleted from the topic, so it begins at offset 0.
		from[partition] = kgo.NewOffset().At(0)
	}
	return client(
		kgo.SeedBrokers(of.Bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{of.Topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
	)
}

// poll fails if no record arrives for too long, so that a lost record ends a run.
func poll(consumer *kgo.Client) kgo.Fetches {
	ctx, cancel := context.WithTimeout(context.Background(), idleLimit)
	defer cancel()
	fetches := consumer.PollFetches(ctx)
	check(fetches.Err())
	return fetches
}

func consume(of benchCase, with settings) map[string]any {
	consumer := consumerOf(of, with)
	defer consumer.Close()
	count, size := 0, 0
	watch := start()
	for count < of.Records {
		poll(consumer).EachPartition(func(read kgo.FetchTopicPartition) {
			size += valueBytes(read.Records)
			count += len(read.Records)
		})
	}
	found := watch.result(count)
	found["value_bytes"] = size
	return found
}

// lastRead keeps the result of valueBytes, so that the compiler cannot remove its reads.
var lastRead byte

// valueBytes returns the total size of the values. It also reads a first and a last byte of each,
// because a value is a slice of its decompressed batch, and len reads none of its bytes.
func valueBytes(records []*kgo.Record) int {
	size, ends := 0, byte(0)
	for _, record := range records {
		value := record.Value
		size += len(value)
		if len(value) > 0 {
			ends ^= value[0] ^ value[len(value)-1]
		}
	}
	lastRead = ends
	return size
}

func latency(of benchCase, with settings, value []byte) map[string]any {
	producer := producerOf(of, with)
	defer producer.Close()
	return samples(of.Records, func() { sendOne(producer, of.Topic, value) })
}

// endToEnd sends one record at a time, waits for its acknowledgement, and reads it.
func endToEnd(of benchCase, with settings, value []byte) map[string]any {
	producer, consumer := producerOf(of, with), consumerOf(of, with)
	defer producer.Close()
	defer consumer.Close()
	return samples(of.Records, func() {
		sendOne(producer, of.Topic, value)
		for poll(consumer).Empty() {
		}
	})
}

func sendOne(producer *kgo.Client, topic string, value []byte) {
	record := &kgo.Record{Topic: topic, Value: value}
	check(producer.ProduceSync(context.Background(), record).FirstErr())
}

// samples measures how long each of count calls takes, after some calls to warm up.
func samples(count int, call func()) map[string]any {
	took := make([]float64, 0, count)
	sum := 0.0
	for number := range count + warmUpSamples {
		begin := time.Now()
		call()
		if number >= warmUpSamples {
			seconds := time.Since(begin).Seconds()
			took = append(took, seconds)
			sum += seconds
		}
	}
	slices.Sort(took)
	inMicros := make([]float64, count)
	for number, seconds := range took {
		inMicros[number] = math.Round(seconds*1e7) / 10
	}
	return map[string]any{
		"records":    count,
		"seconds":    sum,
		"p50_ms":     took[count/2] * 1000,
		"p99_ms":     took[count*99/100] * 1000,
		"samples_us": inMicros,
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(options...)
	check(err)
	return made
}

func payloads(path string) [][]byte {
	text, err := os.ReadFile(path)
	check(err)
	return bytes.Split(text, []byte("\n"))
}

// stopwatch measures wall time and CPU time of all threads since its start.
type stopwatch struct {
	began time.Time
	cpu   float64
}

func start() stopwatch { return stopwatch{time.Now(), cpuSeconds()} }

func (watch stopwatch) result(records int) map[string]any {
	return map[string]any{
		"records":     records,
		"seconds":     time.Since(watch.began).Seconds(),
		"cpu_seconds": cpuSeconds() - watch.cpu,
	}
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	seconds := func(time syscall.Timeval) float64 { return float64(time.Sec) + float64(time.Usec)/1e6 }
	return seconds(used.Utime) + seconds(used.Stime)
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
