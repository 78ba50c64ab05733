"""`python -m benches.peers`: runs every client in turn against one real broker.

--quick            small runs, one round, to see that everything works
--cases produce    only cases whose names start with this
--sizes 100,1000   only cases with values of these sizes. Likewise: --codecs none,lz4,zstd,
                   --threads 1,4,16 and --partitions 1,100,10000
--clients thalweg  only these clients, and the baseline
--variants send    only these variants of clients, and the baseline
--against PYTHON   only thalweg, in turn with the one of another environment: the path of its
                   interpreter, such as ../earlier/.venv/bin/python. Ratios are to that one
--rounds 5         A B A B ... The median counts
--scale 0.5        a factor for each case's number of records
--spread           other cases: 1, 4, 16 sending threads by 1, 100, 10,000 partitions, and
                   consumers of 1, 10, 1,000 partitions
--whole            as --spread, with every size and codec for each. It takes hours, so select
--security SSL     PLAINTEXT (the default), SSL, or SASL_SSL, which logs in with SCRAM-SHA-512. With
                   several, the last table compares each client with itself without encryption
--bootstrap H:P    a running broker, instead of one started here

Options that select take several values, separated by commas.
"""

from __future__ import annotations

import argparse
import itertools
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benches.broker import bench_broker
from benches.peers.equal import check_written
from benches.peers.report import Results, secured_table, table, write_chart, write_json
from benches.peers.runner import run
from benches.peers.security import MECHANISM, PASSWORD, PROTOCOLS, USER
from benches.peers.settings import (
    BASELINE,
    CASES,
    PARTITIONS,
    SPREAD_CASES,
    WHOLE_SPREAD,
    Case,
    Entrant,
    entrants_of,
)
from tests.support.kafka.cluster import RealKafka
from tests.support.paths import ROOT
from tests.support.wire import Wire
from thalweg import KafkaAdminClient
from thalweg.admin import NewPartitions, UserScramCredentialUpsertion

QUICK_SCALE = 0.05
RECORDS_MIN = 10_000
LATENCY_RECORDS_MIN = 500
PARTITIONS_AT_ONCE = 5_000
FILL_LINGER_MS = 500
_numbers = itertools.count(1)


def main() -> None:
    options = parse()
    cases = cases_of(options)
    with ExitStack() as stack:
        bootstrap = options.bootstrap
        if not bootstrap:
            print("starting a broker ...", flush=True)
            secure = options.security != "PLAINTEXT"
            broker = stack.enter_context(bench_broker(secure=secure))
            bootstrap = broker.bootstrap_servers
            if secure:
                create_user(bootstrap)
                protocols = options.security.split(",")
                cases = [secured(case, each, broker) for case in cases for each in protocols]
        warm_up(bootstrap)
        all_results = []
        for case in cases:
            results = measure(scaled(case, options.scale), bootstrap, options)
            all_results.append(results)
            print("\n" + table(results) + "\n", flush=True)
            write_json(options.out.with_suffix(".json"), all_results)
    print(secured_table(all_results))
    write_chart(options.out.with_suffix(".png"), all_results)
    print(f"written: {options.out.with_suffix('.json')}, {options.out.with_suffix('.png')}")


def create_user(bootstrap: str) -> None:
    """Creates the user of the logins, with the smallest number of iterations that Kafka has."""
    upsertion = UserScramCredentialUpsertion(USER, MECHANISM, PASSWORD, iterations=4096)
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        result = admin.alter_user_scram_credentials([upsertion])
    if result != {USER: None}:
        raise RuntimeError(f"the broker did not create {USER}: {result}")


def secured(case: Case, protocol: str, kafka: RealKafka) -> Case:
    """Returns the case over one of the protocols."""
    if protocol == "PLAINTEXT":
        return case
    return replace(
        case,
        security=protocol,
        secure_bootstrap=kafka.bootstrap(protocol),
        cafile=str(kafka.certificates / "ca.pem"),
    )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benches.peers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true")
    for name in ("cases", "sizes", "codecs", "threads", "partitions", "clients", "variants"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--against", default="")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--scale", type=float)
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--security", default="PLAINTEXT")
    parser.add_argument("--bootstrap", default="")
    name = time.strftime("peers-%Y%m%d-%H%M%S")
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts" / "benches" / name)
    options = parser.parse_args(arguments)
    unknown = set(options.security.split(",")) - set(PROTOCOLS)
    if unknown or (options.bootstrap and options.security != "PLAINTEXT"):
        parser.error("--security takes PLAINTEXT, SSL and SASL_SSL, and starts its own broker")
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.scale = options.scale or (QUICK_SCALE if options.quick else 1.0)
    return options


def cases_of(options: argparse.Namespace) -> list[Case]:
    """Returns the cases that the command line selects."""
    known = WHOLE_SPREAD if options.whole else SPREAD_CASES if options.spread else CASES
    return [case for case in known if chosen(case, options)]


def chosen(case: Case, options: argparse.Namespace) -> bool:
    return (
        any(case.name.startswith(each) for each in options.cases.split(","))
        and one_of(case.size, options.sizes)
        and one_of(case.codec, options.codecs)
        and one_of(case.threads, options.threads)
        and one_of(case.partitions, options.partitions)
    )


def one_of(value: object, wanted: str) -> bool:
    return not wanted or str(value) in wanted.split(",")


def scaled(case: Case, scale: float) -> Case:
    if case.role == "start":
        return case
    least = LATENCY_RECORDS_MIN if case.role in ("latency", "end_to_end") else RECORDS_MIN
    return replace(case, records=max(least, int(case.records * scale)))


def warm_up(bootstrap: str) -> None:
    """Warms up the broker's compilers and caches: a cold broker halves the first figures."""
    print("warming the broker up ...", flush=True)
    for codec in ("none", "lz4", "zstd"):
        topic = fresh_topic(bootstrap, "warm-up")
        case = Case("produce", 500_000, 100, codec).at(bootstrap, topic, "", 500_000)
        run(BASELINE, case)
        run(BASELINE, replace(case, role="consume"))
        Wire(bootstrap).delete_topic(topic)


def measure(case: Case, bootstrap: str, options: argparse.Namespace) -> Results:
    """Runs all rounds of a case. An entrant that fails is reported and skipped in later rounds."""
    results = Results(case)
    entrants = [
        each
        for each in entrants_of(case, options.against)
        if each == BASELINE
        or (one_of(each.client, options.clients) and one_of(each.variant, options.variants))
    ]
    filled = fill(case, bootstrap) if case.role == "consume" else ""
    for number in range(1, options.rounds + 1):
        for entrant in entrants:
            if entrant in results.failures:
                continue
            print(
                f"  {case.name} round {number}/{options.rounds}: {entrant.name:26}",
                end="",
                flush=True,
            )
            try:
                one(results, entrant, bootstrap, filled)
                print(f"{results.runs[entrant][-1].rate:>14,.0f} rec/s", flush=True)
            except (RuntimeError, ValueError) as error:
                results.failures[entrant] = " / ".join(str(error).strip().splitlines()[-2:])
                print(f"  failed\n{error}", flush=True)
    if filled:
        Wire(bootstrap).delete_topic(filled)
    return results


def one(results: Results, entrant: Entrant, bootstrap: str, filled: str) -> None:
    """Runs one entrant once, and checks what it wrote."""
    case = results.case
    records = case.records
    if case.role in ("produce", "consume"):
        records = max(min(RECORDS_MIN, case.records), int(case.records * entrant.factor))
    topic = filled or fresh_topic(bootstrap, case.name, case.partitions)
    here = case.at(bootstrap, topic, entrant.variant, records)
    found = run(entrant, here)
    if case.role == "produce":
        sent = int(found.more.get("sent", records))
        written = check_written(replace(here, records=sent), idempotent=entrant.client != "ceiling")
        results.written[entrant] = written
    results.runs.setdefault(entrant, []).append(found)
    if not filled:
        Wire(bootstrap).delete_topic(topic)


def fill(case: Case, bootstrap: str) -> str:
    """Makes a topic to consume, written with the settings of the produce cases."""
    topic = fresh_topic(bootstrap, case.name, case.partitions)
    # Batches of the usual size, however many partitions share the records.
    produce = replace(case, role="produce", linger_ms=FILL_LINGER_MS)
    run(BASELINE, produce.at(bootstrap, topic, "", case.records))
    return topic


def fresh_topic(bootstrap: str, name: str, partitions: int = PARTITIONS) -> str:
    topic = f"bench-{name}-{next(_numbers)}-{time.time_ns() % 10**9}"
    # Kafka does not create more at once.
    Wire(bootstrap).create_topic(topic, min(partitions, PARTITIONS_AT_ONCE))
    if partitions > PARTITIONS_AT_ONCE:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_partitions({topic: NewPartitions(partitions)})
    return topic


if __name__ == "__main__":
    main()
