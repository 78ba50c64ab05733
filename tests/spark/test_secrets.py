"""What Spark shows of the options of a query: plans, event log, UI, logs, checkpoint, errors."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from tests.spark.programs import SESSION, environment, run
from tests.support.canary import SENTINEL, forms
from tests.support.paths import ROOT
from tests.support.spark_home import quick_start
from thalweg.config import InsecureConnectionWarning
from thalweg.spark.options import parse_sink, parse_source

VISIBLE = "visible-canary"
PROVIDED = "Pr0vid/ed+4711="
PROGRAM = (
    SESSION
    + r"""
import json, urllib.request
from pathlib import Path
from tests.support.spark_queries import finish
from thalweg import EmbeddedBroker

folder, redaction, secret, visible = Path(sys.argv[1]), *sys.argv[2:5]
provided = os.environ["THALWEG_TEST_PASSWORD"]
os.environ["PYSPARK_PYTHON"] = sys.executable
(folder / "events").mkdir()
spark = session("local[2]", **{
    "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.log.level": "ALL",
    "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false",
    "spark.eventLog.dir": f"file://{folder / 'events'}", "spark.redaction.regex": redaction,
    "spark.sql.shuffle.partitions": "1",
})
users = {"alice": secret, "bob": provided}
broker = EmbeddedBroker(
    security_protocol="SASL_PLAINTEXT", users=users, sasl_mechanisms=["SCRAM-SHA-256"]
)
broker.start()
broker.create_topic("t")
common = {
    "kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.client.id": visible,
    "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "SCRAM-SHA-256",
}
module = "org.apache.kafka.common.security.scram.ScramLoginModule"
inline = {
    **common,
    "kafka.sasl.jaas.config": f'{module} required username="alice" password="{secret}";',
    "kafka.ssl.key.pem": f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n",
    "kafka.sasl.oauthbearer.assertion.private.key.passphrase": secret,
    "kafka.sasl.oauthbearer.config": f"principal={secret}",
}
from_provider = {
    **common, "kafka.sasl.username": "bob", "kafka.sasl.password": "${env:THALWEG_TEST_PASSWORD}",
    "kafka.config.providers": "env",
    "kafka.config.providers.env.param.allowlist.pattern": "THALWEG_.*",
}
rows = spark.createDataFrame([("a",), ("b",)], "value string")
for number, login in enumerate((inline, from_provider)):
    rows.write.format("thalweg").mode("append").options(**login).option("topic", "t").save()
    frame = spark.read.format("thalweg").options(**login).option("subscribe", "t").load()
    print("rows", frame.count())
    modes = () if number else ("simple", "extended", "codegen", "cost", "formatted")
    for mode in modes:
        frame.explain(mode=mode)
    frame.createOrReplaceTempView("view")
    spark.sql("explain extended select * from view").show(truncate=False)
    stream = spark.readStream.format("thalweg").options(**login).option("subscribe", "t")
    writer = (
        stream.option("startingOffsets", "earliest").load()
        .writeStream.format("thalweg").options(**login).option("topic", f"copy-{number}")
        .option("checkpointLocation", str(folder / f"checkpoint-{number}"))
        .trigger(availableNow=True)
    )
    query = finish(writer.start)
    query.explain(True)
    print(query.lastProgress, query.recentProgress, query.status)
wrong = {
    **common, "kafka.sasl.username": "alice", "kafka.sasl.password": f"not-{secret}",
    "kafka.sasl.oauthbearer.config": f"principal={secret}",
}
def fails(work):
    try:
        work()
    except Exception as error:
        print("refused", error)
fails(spark.read.format("thalweg").options(**wrong).option("subscribe", "t").load().count)
fails(rows.write.format("thalweg").mode("append").options(**wrong).option("topic", "t").save)
pages = f"{spark.sparkContext.uiWebUrl}/"
api = f"{pages}api/v1/applications/{spark.sparkContext.applicationId}/"
for number, page in enumerate((
    api + "sql?details=true&planDescription=true&length=1000", api + "jobs",
    api + "stages?details=true", api + "environment", pages + "SQL/", pages + "StreamingQuery/",
)):
    (folder / f"page-{number}").write_bytes(urllib.request.urlopen(page).read())
spark.stop()
broker.close()
"""
)


def documented_regex() -> str:
    """Returns the value of spark.redaction.regex in docs/spark.md."""
    text = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
    found = re.search(r"^ *spark\.redaction\.regex +(\S+)$", text, re.MULTILINE)
    assert found is not None
    return found[1]


def test_spark_shows_no_secret(java: Path, tmp_path: Path) -> None:
    """Scenario 103."""
    folder = tmp_path / "shown"
    folder.mkdir()
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    env = environment(java, THALWEG_TEST_PASSWORD=PROVIDED, PYTHONPATH=str(ROOT), **quick_start())
    arguments = [str(file), str(folder), documented_regex(), SENTINEL, VISIBLE]
    ran = run(arguments, env, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-5000:]
    assert "rows 2" in ran.stdout
    assert "rows 4" in ran.stdout
    assert ran.stdout.count("refused") == 2
    assert "Invalid credentials" in ran.stdout or "invalid credentials" in ran.stdout
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    texts = {str(path): data.decode("latin-1") for path, data in files.items()}
    texts |= {"the output": ran.stdout, "the log": ran.stderr}
    wanted = forms(SENTINEL) | forms(PROVIDED)
    assert not [(where, form) for where, text in texts.items() for form in wanted if form in text]
    # What is not secret shows that this test looks in the right places.
    seen = {where.split("/")[-1].split("_")[0] for where in texts if VISIBLE in texts[where]}
    assert seen >= {"the log", "events", "page-0"}


KEY = "-----BEGIN PRIVATE KEY-----\nMIG\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "option, value",
    [
        ("kafka.ssl.key.pem", KEY),
        ("kafka.ssl.keystore.key", KEY),
        ("kafka.sasl.oauthbearer.assertion.private.key.passphrase", "hunter2"),
        ("kafka.sasl.oauthbearer.config", "principal=hunter2"),
    ],
)
def test_a_secret_that_spark_shows_by_default_is_warned_of(option: str, value: str) -> None:
    given = {"kafka.bootstrap.servers": "a:1", option: value}
    with pytest.warns(InsecureConnectionWarning, match=option) as caught:
        parse_source({**given, "subscribe": "t"}, "batch")
    with pytest.warns(InsecureConnectionWarning, match=option):
        parse_sink({**given, "topic": "t"})
    assert "hunter2" not in str(caught[0].message)
    assert re.search(documented_regex(), option)


@pytest.mark.parametrize(
    "option, value",
    [
        ("kafka.sasl.password", "hunter2"),
        ("kafka.sasl.jaas.config", 'PlainLoginModule required password="hunter2";'),
        ("kafka.ssl.key.location", "/run/secrets/key.pem"),
        ("kafka.ssl.key.pem", "${file:/run/secrets/kafka.properties:key}"),
        ("kafka.sasl.oauthbearer.config", "${env:CONFIG}"),
    ],
)
def test_a_secret_that_spark_hides_or_does_not_have_is_not_warned_of(
    option: str, value: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_source({"kafka.bootstrap.servers": "a:1", option: value, "subscribe": "t"}, "batch")


def test_no_repr_of_options_shows_a_secret() -> None:
    given = {"kafka.bootstrap.servers": "a:1", "kafka.sasl.password": SENTINEL}
    for parsed in (parse_source({**given, "subscribe": "t"}, "batch"), parse_sink(given)):
        assert SENTINEL not in repr(parsed) + str(vars(parsed))
