"""The benchmark of the other clients compares equal settings."""

from __future__ import annotations

import itertools
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benches.broker import bench_broker
from benches.peers import equal, franz_go, runner
from benches.peers.__main__ import cases_of, parse
from benches.peers.clients import program
from benches.peers.equal import (
    CODEC_IDS,
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    SPELLINGS,
    check_written,
    consumer_options,
    producer_options,
)
from benches.peers.report import Results, table, write_chart, write_json
from benches.peers.runner import Run, run
from benches.peers.settings import (
    BASELINE,
    CASES,
    CEILING,
    ENTRANTS,
    EQUAL_CEILING,
    PRODUCE_BATCH,
    QUIET,
    SPREAD_CASES,
    SPREAD_ENTRANTS,
    WHOLE_SPREAD,
    Case,
    Entrant,
    entrants_of,
    from_json,
    payloads,
)
from tests.support.wire import BatchHeader, Wire


@pytest.mark.parametrize("client", SPELLINGS)
def test_every_client_has_a_spelling_for_every_setting(client):
    for setting in (*PRODUCER_SETTINGS, *CONSUMER_SETTINGS):
        spelling = SPELLINGS[client][setting]
        assert bool(spelling.key) != bool(spelling.fixed)


def test_every_entrant_is_in_the_table():
    clients = {entrant.client for entrants in ENTRANTS.values() for entrant in entrants}
    assert clients - {"ceiling"} == set(SPELLINGS)
    assert all(BASELINE in entrants for entrants in ENTRANTS.values())
    assert {case.role for case in CASES} == set(ENTRANTS)


def test_the_whole_spread_has_every_size_and_codec_on_all_threads_and_partitions():
    sent = [case for case in WHOLE_SPREAD if case.role == "produce"]
    kinds = [(case.size, case.codec, case.threads, case.partitions) for case in sent]
    assert len(set(kinds)) == len(kinds)
    every = itertools.product((100, 1000), ("none", "lz4", "zstd"), (1, 4, 16), (1, 100, 10_000))
    assert set(every) <= set(kinds)
    assert set(SPREAD_CASES) < set(WHOLE_SPREAD)
    assert all(case.is_spread for case in WHOLE_SPREAD)


def test_the_command_line_chooses_cases():
    assert cases_of(parse([])) == CASES
    assert cases_of(parse(["--spread"])) == SPREAD_CASES
    some = ["--sizes", "1000", "--codecs", "none,zstd", "--threads", "16", "--partitions", "1,100"]
    assert [case.name for case in cases_of(parse(["--whole", "--cases", "produce", *some]))] == [
        "produce-1000B-16-threads-1-partitions",
        "produce-1000B-16-threads-100-partitions",
        "produce-1000B-zstd-16-threads-1-partitions",
        "produce-1000B-zstd-16-threads-100-partitions",
    ]


def test_options_say_the_same_in_each_clients_words():
    case = Case("produce", 1, codec="zstd", level=3)
    assert producer_options("java", case) == {
        "linger.ms": 5,
        "batch.size": 131_072,
        "acks": "all",
        "enable.idempotence": "true",
        "compression.type": "zstd",
        "compression.zstd.level": 3,
    }
    assert producer_options("thalweg", case) == {
        "linger_ms": 5,
        "batch_size": 131_072,
        "acks": "all",
        "enable_idempotence": True,
        "compression_type": "zstd",
        "compression_level": 3,
    }
    assert consumer_options("aiokafka", case) == {
        "check_crcs": True,
        "isolation_level": "read_uncommitted",
    }


@pytest.mark.parametrize("size", [100, 1000])
def test_payloads_are_of_their_size_distinct_and_half_compressible(size):
    values = payloads(size)
    assert {len(value) for value in values} == {size}
    assert len(set(values)) == len(values)
    assert all(value.isascii() and b"\n" not in value for value in values)
    batch = b"".join(values[: 100_000 // size])
    assert 0.3 < len(zlib.compress(batch)) / len(batch) < 0.55


def test_without_a_go_tool_chain_franz_go_is_left_out_with_the_reason(monkeypatch):
    monkeypatch.setenv("PATH", "")
    franz_go._program.cache_clear()
    with pytest.raises(RuntimeError, match="go is not on PATH"):
        run(Entrant("franz-go", ""), CASES[0])


def test_franz_gos_program_knows_its_roles_and_the_names_of_its_settings():
    source = (franz_go._SOURCE / "main.go").read_text(encoding="utf-8")
    roles = {role for role, entrants in ENTRANTS.items() if Entrant("franz-go", "") in entrants}
    assert set(re.findall(r'case "(\w+)":', source)) == roles
    # The program would silently ignore a name that it does not know.
    names = {spelling.key for spelling in SPELLINGS["franz-go"].values()}
    assert set(re.findall(r'json:"(\w+)"', source)) == names


def test_franz_gos_program_warms_up_as_long_as_the_others():
    source = (franz_go._SOURCE / "main.go").read_text(encoding="utf-8")
    found = dict(re.findall(r"(warmUp\w+)\s+= ([\d_]+)", source))
    assert {name: int(count) for name, count in found.items()} == {
        "warmUpRecords": program.WARM_UP_RECORDS,
        "warmUpSamples": program.LATENCY_WARM_UP,
    }


def test_franz_gos_program_is_given_the_settings_of_both_of_its_clients(monkeypatch):
    monkeypatch.setattr(franz_go, "_program", lambda: Path("program"))
    monkeypatch.setattr(franz_go, "_values", lambda size: Path(f"values-{size}"))
    case = Case("end_to_end", 10, linger_ms=0, partitions=1)
    _, given, settings, _ = franz_go.command(case)
    assert from_json(given) == case
    names = {spelling.key for spelling in SPELLINGS["franz-go"].values()}
    assert set(json.loads(settings)) == names - {"level"}  # this case has no codec


def test_a_case_survives_the_way_to_a_process():
    case = CASES[2].at("127.0.0.1:9092", "t", "send", 10)
    assert from_json(case.to_json()) == case


@pytest.mark.parametrize(
    "entrant",
    [
        BASELINE,
        Entrant("confluent-kafka", QUIET),
        Entrant("confluent-kafka", PRODUCE_BATCH),
        Entrant("kafka-python", ""),
        Entrant("aiokafka", ""),
        Entrant("java", ""),
    ],
    ids=lambda entrant: entrant.name,
)
def test_what_a_client_wrote_is_read_back_and_checked(kafka, entrant):
    topic = kafka.create_topic("bench", 4)
    case = Case("produce", 1, codec="lz4")
    case = case.at(kafka.bootstrap_servers, topic, entrant.variant, 10_000)
    found = run(entrant, case)
    assert found.rate > 0
    assert found.rss_bytes > 1_000_000
    written = check_written(case, idempotent=True)
    assert written.records == 10_000
    assert 40 < written.bytes_per_record < 80
    with pytest.raises(ValueError, match="not in zstd"):
        check_written(replace(case, codec="zstd"), idempotent=True)
    with pytest.raises(ValueError, match="9000 sent"):
        check_written(replace(case, records=9000), idempotent=True)
    with pytest.raises(ValueError, match="producer id"):
        check_written(replace(case, idempotence=False), idempotent=True)


def batch(codec: str, records: int) -> BatchHeader:
    return BatchHeader(0, 100, CODEC_IDS[codec], records - 1, records, 1, 0, 0)


def test_small_batches_may_stay_as_they_are_but_not_all_of_them(monkeypatch):
    class Stored:
        end_offsets = staticmethod(lambda topic: dict.fromkeys(range(len(log)), 3))
        batches = staticmethod(lambda topic, partition: [log[partition]])

    log = [batch("none", 3), batch("lz4", 3)]
    monkeypatch.setattr(equal, "Wire", lambda bootstrap: Stored)
    case = Case("produce", 1, codec="lz4", partitions=2).at("", "t", "", 6)
    assert check_written(case, idempotent=True).records == 6
    log = [batch("none", 3), batch("none", 3)]
    with pytest.raises(ValueError, match="none of 2 batches is in lz4"):
        check_written(case, idempotent=True)
    uncompressed = replace(case, codec="none")
    assert check_written(uncompressed, idempotent=True).records == 6


@pytest.mark.parametrize("entrant", SPREAD_ENTRANTS["produce"], ids=lambda entrant: entrant.name)
def test_threads_share_a_spread_case_out(kafka, entrant):
    topic = kafka.create_topic("bench", 10)
    case = Case("produce", 1, threads=4, partitions=10)
    here = case.at(kafka.bootstrap_servers, topic, entrant.variant, 10_000)
    assert run(entrant, here).records == 8_000  # without the warm-up records
    check_written(here, idempotent=True)
    assert min(kafka.wire.end_offsets(topic).values()) > 0


@pytest.mark.parametrize(
    "entrant",
    # No test needs Go. `python -m benches.peers --quick` runs franz-go's program.
    [CEILING, *(each for each in SPREAD_ENTRANTS["consume"] if each.client != "franz-go")],
    ids=lambda entrant: entrant.name,
)
def test_a_spread_case_is_read_from_all_its_partitions(kafka, entrant):
    topic = kafka.create_topic("bench", 10)
    case = Case("produce", 1, threads=2, partitions=10)
    filled = case.at(kafka.bootstrap_servers, topic, "", 10_000)
    assert run(BASELINE, filled).records == 8_000
    assert min(kafka.wire.end_offsets(topic).values()) > 0
    read = replace(filled, role="consume", threads=1, variant=entrant.variant)
    assert run(entrant, read).records >= 10_000


def test_the_ceiling_takes_part_where_its_batches_reach_every_partition():
    def has_ceiling(case: Case) -> bool:
        both = {CEILING, EQUAL_CEILING}
        found = both & set(entrants_of(case))
        assert found in (both, set())
        return bool(found)

    assert has_ceiling(Case("produce", 1))
    assert has_ceiling(Case("produce", 1, partitions=1))
    assert not has_ceiling(Case("produce", 1, threads=4))
    assert not has_ceiling(Case("produce", 1, partitions=10_000))
    assert has_ceiling(Case("consume", 1, partitions=1_000))


@pytest.mark.parametrize("role", ["produce", "consume", "latency"])
def test_with_another_build_only_the_two_builds_of_thalweg_take_part(role):
    found = entrants_of(Case(role, 1), against="/other/bin/python")
    other, ours = found[::2], found[1::2]
    assert {each.python for each in other} == {"/other/bin/python"}
    assert [replace(each, python="") for each in other] == ours
    assert all(each.client.startswith("thalweg") for each in ours)
    names = {each.name for each in ours if not each.client.endswith("aio")}
    assert names >= {each.name for each in ENTRANTS[role] if each.client == "thalweg"}


def test_each_entrant_is_compared_with_itself_in_the_other_build():
    case = Case("produce", 1)
    results = Results(case)
    for entrant in entrants_of(case, against="/other/bin/python"):
        rate = 2.0 if entrant.python else 3.0
        results.runs[entrant] = [Run(records=1, rate=rate, cpu_us=1.0, rss_bytes=1)]
    ratios = {results.ratio(each) for each in results.runs if not each.python}
    assert ratios == {1.5}


def test_a_benchmark_has_a_real_broker():
    with bench_broker() as broker:
        broker.create_topic("bench", 3)
        ends = Wire(broker.bootstrap_servers).end_offsets("bench")
    assert list(ends.values()) == [0, 0, 0]


def test_the_latencies_that_warm_up_are_left_out(monkeypatch):
    clock = itertools.accumulate(itertools.repeat(0.25))
    monkeypatch.setattr(program, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    samples = program.Samples(Case("latency", 3))
    turns = sum(1 for _ in samples)
    assert turns == program.LATENCY_WARM_UP + 3
    assert samples.result() == {
        "records": 3,
        "seconds": 0.75,
        "p50_ms": 250.0,
        "p99_ms": 250.0,
        "samples_us": [250_000.0] * 3,
    }


def test_latencies_of_all_rounds_are_pooled():
    other = Entrant("thalweg", "send")
    results = Results(Case("latency", 100, linger_ms=0))
    quiet = [100.0] * 100
    # The median of the rounds' 99th percentiles would hide the slow records.
    rounds = [[100.0] * 97 + [500.0] * 3, quiet, quiet]
    results.runs[BASELINE] = [Run(1, 100, None, 0, samples_us=quiet) for _ in rounds]
    results.runs[other] = [Run(1, 100, None, 0, samples_us=samples) for samples in rounds]
    assert results.latency(other, "p50_ms") == (0.1, 1.0)
    assert results.latency(other, "p99_ms") == (0.5, 5.0)
    assert table(results).splitlines()[-1].split()[2:] == ["0.10", "1.00", "0.50", "5.00"]


def test_the_report_has_medians_and_ratios_within_a_round(tmp_path):
    other = Entrant("thalweg", "send")
    results = Results(Case("produce", 100))
    results.runs[BASELINE] = [Run(rate, 100, 1.0, 10**6) for rate in (100.0, 400.0, 200.0)]
    results.runs[other] = [Run(rate, 100, 0.5, 10**6) for rate in (300.0, 800.0, 700.0)]
    assert results.median(other, "rate") == 700.0
    assert results.ratio(other) == 3.0
    lines = table(results).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["confluent-kafka", "thalweg"]
    assert lines[3].split()[-1] == "3.00"
    write_json(tmp_path / "r.json", [results])
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["cases"][0]["entrants"]["thalweg send"]["ratio"] == 3.0
    write_chart(tmp_path / "r.png", [results])
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


def test_javas_clients_run_with_the_optimising_compiler_and_the_usual_collector():
    command = runner._java("ProducerPerformance", "--topic", "t")
    options = command[: command.index("-cp")]
    assert [each for each in options if each.startswith("-X")] == ["-Xmx1g"]
