"""PySpark 4.0: batches work, and a stream names the version that it needs.

Only `make test-full` installs PySpark 4.0.0.
"""

from __future__ import annotations

from pathlib import Path

from tests.spark.programs import SESSION, environment, printed
from tests.support.brokers import Broker
from tests.support.paths import CACHE, ROOT, made
from tests.support.selection import older_pyspark

PYTHON = CACHE / "spark-4.0" / "bin" / "python"


@older_pyspark
def test_batches_work_on_pyspark_4_0(java: Path, embedded: Broker, tmp_path: Path) -> None:
    code = f"""
{SESSION}
spark = session()
assert spark.version == "4.0.0"
kafka = {{"kafka.bootstrap.servers": {embedded.bootstrap_servers!r}}}
topic = {embedded.create_topic("older")!r}
rows = spark.range(100).selectExpr("cast(id as string) as value")
rows.write.format("thalweg").mode("append").options(**kafka, topic=topic).save()
read = spark.read.format("thalweg").options(**kafka, subscribe=topic)
assert read.load().select("value").distinct().count() == 100
assert read.option("columns", "offset").load().agg({{"offset": "max"}}).first()[0] == 99
stream = spark.readStream.format("thalweg").options(**kafka, subscribe=topic).load()
rate = spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
for frame, out in ((stream, "noop"), (rate, "thalweg")):
    try:
        writer = frame.writeStream.format(out).options(**kafka, topic=topic)
        query = writer.option("checkpointLocation", {str(tmp_path)!r} + "/" + out).start()
        query.awaitTermination(60)
    except Exception as error:
        print("needs PySpark 4.2" in str(error), "needs PySpark 4.1" in str(error))
"""
    made(PYTHON, "spark-4.0")
    env = environment(java, PYSPARK_PYTHON=str(PYTHON), PYTHONPATH=str(ROOT / "python"))
    lines = printed(code, env, tmp_path, str(PYTHON)).split("\n")
    assert [line for line in lines if line.startswith(("True", "False"))] == [
        "True False",
        "False True",
    ]
