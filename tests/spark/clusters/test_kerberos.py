"""Spark with Kerberos: the driver and the tasks log in with a keytab that Spark ships."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.spark.clusters.round_trips import TOPICS
from tests.spark.programs import SESSION, environment, printed
from tests.support.identity.kerberos import REALM, Realm
from tests.support.kafka.cluster import RealKafka
from tests.support.paths import ROOT
from tests.support.spark_home import quick_start

PROGRAM = (
    SESSION
    + """
import json
from tests.spark.clusters.round_trips import round_trips

given = json.loads(sys.argv[1])
spark = session("local[2]", **{"spark.sql.shuffle.partitions": "2"})
spark.sparkContext.addFile(given["keytab"])
found = round_trips(spark, given["kafka"], given["folder"], prefix="kerberos-")
read = spark.read.format("thalweg").options(**given["java"], subscribe="kerberos-written")
print(json.dumps({"found": found, "java": read.load().count()}))
spark.stop()
"""
)


@pytest.mark.skipif(sys.platform != "linux", reason="GSSAPI works on Linux only")
def test_every_reader_and_writer_logs_in_with_a_shipped_keytab(java: Path, tmp_path: Path) -> None:
    with Realm(tmp_path / "realm") as realm, RealKafka(heap="512m", **realm.broker()) as kafka:
        for name in TOPICS:
            kafka.create_topic(f"kerberos-{name}", 2)
        common = {
            "kafka.bootstrap.servers": kafka.bootstrap("SASL_SSL"),
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.location": str(kafka.certificates / "ca.pem"),
            "kafka.sasl.mechanism": "GSSAPI",
        }
        keytab = Path(realm.keytab("spark"))
        given = {
            "keytab": str(keytab),
            "folder": str(tmp_path / "checkpoints"),
            # Only the name: each process finds the file among those that Spark has shipped.
            "kafka": {
                **common,
                "kafka.sasl.kerberos.principal": f"spark@{REALM}",
                "kafka.sasl.kerberos.keytab": keytab.name,
            },
            "java": {
                **common,
                "kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required"
                f' useKeyTab=true keyTab="{keytab.name}" principal="spark@{REALM}";',
            },
        }
        env = environment(
            java,
            PYTHONPATH=str(ROOT),
            PYSPARK_PYTHON=sys.executable,
            **quick_start(),
            **realm.environment(),
        )
        text = printed(PROGRAM, env, tmp_path, arguments=[json.dumps(given)])
    assert json.loads(text.splitlines()[-1]) == {"found": dict.fromkeys(TOPICS, 20), "java": 20}
