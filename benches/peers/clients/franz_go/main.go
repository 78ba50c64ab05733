// Command franz_go runs one case of the benchmark of the peers with franz-go.
//
//	franz_go CASE OPTIONS PAYLOADS
//
// CASE is the case as JSON, OPTIONS its settings in franz-go's words (equal.py), PAYLOADS a file
// with a value a line. Prints what every client prints: records, seconds and CPU seconds.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	default:
		fail(fmt.Errorf("no role %q", of.Role))
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
		fail(fmt.Errorf("settings that are not spelt here: %+v", with))
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
		// Its own limit of 10,000 records would come before its batches are full.
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

func consume(of benchCase, with settings) map[string]any {
	if !*with.CheckCRCs || with.Isolation != "read_uncommitted" {
		fail(fmt.Errorf("settings that are not spelt here: %+v", with))
	}
	from := map[int32]kgo.Offset{}
	for partition := range of.Partitions {
		from[partition] = kgo.NewOffset().AtStart()
	}
	consumer := client(
		kgo.SeedBrokers(of.Bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{of.Topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
	)
	defer consumer.Close()
	count, size := 0, 0
	watch := start()
	for count < of.Records {
		ctx, cancel := context.WithTimeout(context.Background(), idleLimit)
		fetches := consumer.PollFetches(ctx)
		cancel()
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			size += len(record.Value)
			count++
		})
	}
	found := watch.result(count)
	found["value_bytes"] = size
	return found
}

func latency(of benchCase, with settings, value []byte) map[string]any {
	producer := producerOf(of, with)
	defer producer.Close()
	ctx := context.Background()
	took := make([]float64, 0, of.Records)
	sum := 0.0
	for number := range of.Records + warmUpSamples {
		begin := time.Now()
		check(producer.ProduceSync(ctx, &kgo.Record{Topic: of.Topic, Value: value}).FirstErr())
		if number >= warmUpSamples {
			took = append(took, time.Since(begin).Seconds())
			sum += took[len(took)-1]
		}
	}
	slices.Sort(took)
	return map[string]any{
		"records": of.Records,
		"seconds": sum,
		"p50_ms":  took[len(took)/2] * 1000,
		"p99_ms":  took[len(took)*99/100] * 1000,
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

// Wall and CPU time from here on; CPU of all threads.
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
