"""Options of the data source: which it accepts, and the connector's messages for the others."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest

from thalweg.config import IgnoredOptionWarning
from thalweg.spark.offset_reader import consumer_config
from thalweg.spark.offset_specs import EARLIEST, LATEST, Mode, OffsetSpec
from thalweg.spark.option_names import READ, WRITE
from thalweg.spark.options import parse_sink, parse_source
from thalweg.spark.trigger_delay import milliseconds

BASE = {"kafka.bootstrap.servers": "localhost:9092"}


def source(mode: Mode = "batch", **options: str):
    return parse_source({**BASE, "subscribe": "t", **options}, mode)


def test_defaults_are_the_connectors() -> None:
    batch, stream = source("batch"), source("stream")
    assert batch.starting == OffsetSpec(everywhere=EARLIEST)
    assert batch.ending == OffsetSpec(everywhere=LATEST)
    assert stream.starting == OffsetSpec(everywhere=LATEST)
    assert batch.fail_on_data_loss
    assert batch.columns[-1] == "timestampType"
    assert source(includeHeaders="true").columns[-1] == "headers"
    assert batch.max_offsets_per_trigger is None
    assert batch.poll_timeout_ms == 120_000


@pytest.mark.parametrize(
    ("name", "value"),
    [("kafka.fetch.message.max.bytes", "100000"), ("kafka.max_partition_fetch_bytes", "100000")],
)
def test_another_name_of_an_option_replaces_the_default(name: str, value: str) -> None:
    config = parse_source({**BASE, "subscribe": "t", name: value}, "batch").client_config
    assert [each for each in config if "max" in each] == [name.removeprefix("kafka.")]


@pytest.mark.parametrize("name", ["allow.auto.create.topics", "allow_auto_create_topics"])
def test_the_source_creates_no_topic_under_any_name_of_the_option(name: str) -> None:
    given = {**BASE, "subscribe": "t", f"kafka.{name}": "true"}
    config = consumer_config(parse_source(given, "batch"))
    assert {each: config[each] for each in config if each.startswith("allow")} == {
        "allow.auto.create.topics": False
    }


def test_topics_of_subscribe_are_trimmed() -> None:
    parsed = parse_source({**BASE, "subscribe": " a , b ,,c"}, "batch")
    assert parsed.strategy.topics == ("a", "b", "c")


def test_assign_names_partitions() -> None:
    parsed = parse_source({**BASE, "assign": '{"b":[1,0],"a":[2]}'}, "batch")
    assert parsed.strategy.assigned == (("a", 2), ("b", 0), ("b", 1))


def test_a_pattern_matches_whole_names() -> None:
    strategy = parse_source({**BASE, "subscribePattern": "top.*"}, "batch").strategy
    assert strategy.matches("topic-1")
    assert not strategy.matches("a-topic")


def test_option_names_and_words_are_case_insensitive() -> None:
    parsed = parse_source({**BASE, "SUBSCRIBE": "t", "StartingOffsets": "earLiEst"}, "stream")
    assert parsed.starting == OffsetSpec(everywhere=EARLIEST)


def test_offsets_by_partition() -> None:
    parsed = source(startingOffsets='{"t":{"0":-2,"1":7}}', endingOffsets='{"t":{"0":-1,"1":9}}')
    assert parsed.starting.offsets == {"t": {0: -2, 1: 7}}
    assert parsed.ending.offsets == {"t": {0: -1, 1: 9}}


def test_one_timestamp_wins_over_times_by_partition_and_offsets() -> None:
    parsed = source(
        startingTimestamp="5",
        startingOffsetsByTimestamp='{"t":{"0":1}}',
        startingOffsets='{"t":{"0":1}}',
    )
    assert parsed.starting == OffsetSpec(timestamp_ms=5)
    parsed = source(startingOffsetsByTimestamp='{"t":{"0":1}}', startingOffsets='{"t":{"0":2}}')
    assert parsed.starting == OffsetSpec(timestamps={"t": {0: 1}})


def test_kafka_options_lose_their_prefix() -> None:
    parsed = source("batch", **{"kafka.security.protocol": "SSL"})
    assert parsed.client_config == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SSL",
        "max.partition.fetch.bytes": "8388608",
    }


@pytest.mark.parametrize("name", ["max.partition.fetch.bytes", "max_partition_fetch_bytes"])
def test_the_users_own_size_of_fetches_replaces_ours(name: str) -> None:
    parsed = source("batch", **{f"kafka.{name}": "1000"})
    assert parsed.client_config == {"bootstrap.servers": "localhost:9092", name: "1000"}


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        (
            "batch",
            {},
            "One of the following options must be specified for Kafka source",
        ),
        (
            "batch",
            {"subscribe": "t", "assign": "{}"},
            "Only one of the following options",
        ),
        ("batch", {"assign": ""}, "No topicpartitions to assign as specified value"),
        ("batch", {"assign": "{}"}, "No topicpartitions to assign as specified value"),
        ("batch", {"assign": '{"t":["x"]}'}, r"Expected e\.g\. "),
        ("batch", {"subscribe": " , "}, "No topics to subscribe to as specified value"),
        ("batch", {"subscribePattern": ""}, "Pattern to subscribe is empty"),
        ("batch", {"subscribePattern": "["}, "is not a regular expression"),
        (
            "batch",
            {"subscribe": "t", "startingOffsets": "latest"},
            "starting offset can't be latest for batch queries on Kafka",
        ),
        (
            "batch",
            {"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'},
            "startingOffsets for t-0 can't be latest for batch queries on Kafka",
        ),
        (
            "batch",
            {"subscribe": "t", "endingOffsets": "earliest"},
            "ending offset can't be earliest for batch queries on Kafka",
        ),
        (
            "batch",
            {"subscribe": "t", "endingOffsets": '{"t":{"0":-2}}'},
            "endingOffsets for t-0 can't be earliest for batch queries on Kafka",
        ),
        (
            "batch",
            {"subscribe": "t", "startingTimestamp": "x"},
            "'startingTimestamp': Expected a single long value, got x",
        ),
        (
            "batch",
            {"subscribe": "t", "endingTimestamp": "9" * 30},
            "'endingTimestamp': Expected a single long value, got 9",
        ),
        (
            "batch",
            {"subscribe": "t", "startingOffsets": '{"t":{"0":1,"00":2}}'},
            "'startingOffsets': Expected e",
        ),
        (
            "batch",
            {"subscribe": "t", "startingOffsets": '{"t":[0]}'},
            r"Expected e\.g\. ",
        ),
        ("batch", {"subscribe": "t", "startingOffsets": '{"t":{"0":-3}}'}, "t-0 is -3"),
        # Options that would be ignored silently, or fail in a task.
        ("batch", {"subscribe": "t", "startingOffsets": '{"t":{"0":5,"0":7}}'}, "Expected e"),
        ("batch", {"subscribe": "t", "startingOffsets": '{"t":{"0":1},"t":{"1":1}}'}, "Expected e"),
        ("batch", {"subscribe": "t", "endingOffsets": '{"t":{"0":9223372036854775808}}'}, "Expe"),
        ("batch", {"subscribe": "t", "endingOffsets": '{"t":{"2147483648":1}}'}, "Expected e"),
        ("batch", {"assign": '{"t":[2147483648]}'}, "Expected e"),
        ("batch", {"assign": '{"t":[0],"t":[1]}'}, "Expected e"),
        (
            "batch",
            {"assign": '{"t":[0,1]}', "startingOffsets": '{"t":{"0":1}}'},
            "you must specify all TopicPartitions",
        ),
        (
            "stream",
            {"subscribe": "t", "endingOffsets": "latest"},
            "ending offset not valid in streaming queries",
        ),
        (
            "stream",
            {"subscribe": "t", "endingTimestamp": "1"},
            "ending timestamp not valid in streaming queries",
        ),
        (
            "batch",
            {"subscribe": "t", "minPartitions": "a"},
            "minPartitions must be a positive",
        ),
        (
            "batch",
            {"subscribe": "t", "minPartitions": "1.0"},
            "minPartitions must be a positive",
        ),
        (
            "batch",
            {"subscribe": "t", "minPartitions": "0"},
            "minPartitions must be positive",
        ),
        (
            "batch",
            {"subscribe": "t", "minPartitions": "-1"},
            "minPartitions must be positive",
        ),
        (
            "batch",
            {"subscribe": "t", "maxRecordsPerPartition": "0"},
            "maxRecordsPerPartition must be",
        ),
        (
            "stream",
            {"subscribe": "t", "maxPartitions": "2", "maxRecordsPerPartition": "7"},
            "maxPartitions and maxRecordsPerPartition exclude each other",
        ),
        (
            "batch",
            {"subscribe": "t", "maxPartitions": "4", "minPartitions": "2"},
            "maxPartitions and minPartitions exclude each other",
        ),
        ("batch", {"subscribe": "t", "maxPartitions": "no"}, "maxPartitions must be a positive"),
        ("batch", {"subscribe": "t", "failOnDataLoss": "yes"}, "must be true or false"),
        (
            "stream",
            {"subscribe": "t", "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
            r"minOffsetPerTrigger\(20\) is higher than the maxOffsetsPerTrigger\(15\)",
        ),
        ("stream", {"subscribe": "t", "maxTriggerDelay": "soon"}, "Time must be specified as"),
        ("batch", {"subscribe": "t", "startingOffsets": '{"t":"latest"}'}, "for t can't be latest"),
        ("batch", {"subscribe": "t", "endingOffsets": '{"t":"earliest"}'}, "t can't be earliest"),
        ("batch", {"subscribe": "t", "startingOffsets": '{"t":"first"}'}, "Expected e"),
        ("batch", {"subscribe": "t", "startingOffsetsByTimestamp": '{"t":"earliest"}'}, "Expect"),
        (
            "batch",
            {"subscribe": "t", "startingOffsetsByTimestampStrategy": "x"},
            "must be 'error' or 'latest'",
        ),
        *[
            (
                "batch",
                {"subscribe": "t", f"kafka.{name}": "x"},
                f"Kafka option '{name}' is not supp",
            )
            for name in (
                "auto.offset.reset",
                "key.deserializer",
                "value.deserializer",
                "enable.auto.commit",
                "interceptor.classes",
            )
        ],
    ],
)
def test_bad_options_are_refused(mode: Mode, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_source({**BASE, **options}, mode)


def test_a_read_without_bootstrap_servers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'kafka\.bootstrap\.servers' must be specified"):
        parse_source({"subscribe": "t"}, "batch")


def test_columns_are_chosen_in_their_order() -> None:
    assert source(columns=" Value,OFFSET , headers").columns == ("value", "offset", "headers")


@pytest.mark.parametrize("columns", ["", ",", "value,VALUE", "value,size"])
def test_other_columns_are_refused(columns: str) -> None:
    with pytest.raises(ValueError, match="Option 'columns'"):
        source(columns=columns)


def test_good_partition_counts_are_taken() -> None:
    assert source(minPartitions="4").min_partitions == 4
    largest = source("stream", maxOffsetsPerTrigger="9223372036854775807")
    assert largest.max_offsets_per_trigger == 2**63 - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15m", 900_000),
        ("2 ", 2),
        ("90S", 90_000),
        ("1min", 60_000),
        ("3h", 10_800_000),
        ("1d", 86_400_000),
        ("2500us", 2),
        ("7ms", 7),
    ],
)
def test_times_are_read_as_spark_reads_them(text: str, expected: int) -> None:
    assert milliseconds(text) == expected


@pytest.mark.parametrize("text", ["", "m", "-1s", "1 s", "1w", "1.5s", "9" * 30])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Time must be specified as seconds"):
        milliseconds(text)


def test_the_limits_of_a_trigger_default_to_sparks() -> None:
    parsed = source("stream", minOffsetsPerTrigger="5")
    assert (parsed.min_offsets_per_trigger, parsed.max_trigger_delay_ms) == (5, 15 * 60_000)


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_a_batch_ignores_the_limits_of_a_trigger_with_a_warning(name: str) -> None:
    with pytest.warns(IgnoredOptionWarning, match=f"{name} option ignored in batch queries"):
        source("batch", **{name: "5"})


def test_the_sink_refuses_serializers() -> None:
    for name in ("key.serializer", "value.serializer"):
        with pytest.raises(ValueError, match=f"Kafka option '{name}' is not supported"):
            parse_sink({**BASE, f"kafka.{name}": "x"})


@pytest.mark.parametrize("name", ["kafka.transactional.id", "kafka.transactional_id"])
def test_the_sink_refuses_to_share_a_transactional_id(name: str) -> None:
    with pytest.raises(ValueError, match=r"'transactional\.id' is not supported"):
        parse_sink({**BASE, name: "x"})


def test_options_show_no_password() -> None:
    secret = {**BASE, "kafka.sasl.password": "hunter2", "kafka.ssl.key.password": "hunter2"}
    for parsed in (parse_source({**secret, "subscribe": "t"}, "stream"), parse_sink(secret)):
        assert "hunter2" not in repr(parsed)
        assert "hunter2" not in repr(replace(parsed))
        assert parsed.client_config["sasl.password"] == "hunter2"


def test_the_sink_needs_bootstrap_servers() -> None:
    with pytest.raises(ValueError, match=r"'kafka\.bootstrap\.servers' must be specified"):
        parse_sink({"topic": "t"})
    assert parse_sink({**BASE, "topic": " t "}).topic == "t"


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("misspelled", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("failOnDataLos", "failOnDataLoss"),
        ("endingOffsetByTimestamp", "endingOffsetsByTimestamp"),
        ("kafka.bootstrap.server", "bootstrap.servers"),
        ("bootstrap.server", "kafka.bootstrap.servers"),
        ("max.poll.records", "kafka.max.poll.records"),
        ("kafka.fetch.min.byte", "fetch.min.bytes"),
    ],
)
@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_a_misspelled_option_of_a_read_is_refused_with_the_nearest(
    mode: Mode, misspelled: str, meant: str
) -> None:
    with pytest.raises(ValueError, match=r"is not (known|an option of the client): ") as caught:
        source(mode, **{misspelled: "1"})
    assert f"'{misspelled.lower()}'" in str(caught.value)
    assert f"'{meant}'" in str(caught.value)


@pytest.mark.parametrize("misspelled", ["subcribe", "subscribes", "subscribe_pattern"])
def test_a_misspelled_subscribe_is_told_before_its_absence(misspelled: str) -> None:
    with pytest.raises(ValueError, match=rf"'{misspelled}' is not known: did you mean 'subscribe"):
        parse_source({**BASE, misspelled: "t"}, "batch")


@pytest.mark.parametrize(
    ("misspelled", "meant"),
    [("topics", "topic"), ("linger.ms", "kafka.linger.ms"), ("kafka.lingerms", "linger.ms")],
)
def test_a_misspelled_option_of_a_write_is_refused_with_the_nearest(
    misspelled: str, meant: str
) -> None:
    with pytest.raises(ValueError, match=rf"is not .*'{meant}'"):
        parse_sink({**BASE, "topic": "t", misspelled: "1"})


def test_options_that_spark_adds_cause_no_warning() -> None:
    sparks = {"path": "p", "paths": "[]", "queryName": "q", "checkpointLocation": "c"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source("stream", **sparks)
        parse_sink({**BASE, "topic": "t", "includeHeaders": "true", **sparks})


@pytest.mark.parametrize("foreign", ["__source_name", "mergeSchema", "platform.job.id"])
def test_an_unknown_option_only_causes_a_warning(foreign: str) -> None:
    with pytest.warns(IgnoredOptionWarning, match=f"'{foreign.lower()}' is ignored"):
        source("stream", **{foreign: "1"})
    with pytest.warns(IgnoredOptionWarning, match=f"'{foreign.lower()}' is ignored"):
        parse_sink({**BASE, foreign: "1"})


def test_an_option_of_the_other_side_is_warned_of() -> None:
    with pytest.warns(IgnoredOptionWarning, match="'topic' is ignored: it is an option of a write"):
        source(topic="t")
    with pytest.warns(IgnoredOptionWarning, match="'startingOffsets' is ignored: .* a read"):
        parse_sink({**BASE, "startingOffsets": "earliest"})
    with pytest.warns(IgnoredOptionWarning, match="'groupidprefix' is accepted and ignored"):
        source(groupIdPrefix="g")
    with pytest.warns(IgnoredOptionWarning, match="includeHeaders has no effect"):
        source(columns="value", includeHeaders="true")


def test_the_known_names_are_those_of_the_page() -> None:
    from tests.support.paths import ROOT

    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    for name in (*READ, *WRITE):
        assert f"`{name}`" in page, name
