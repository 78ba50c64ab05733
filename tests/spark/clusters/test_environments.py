"""A packed environment: executors run thalweg from an archive that Spark sends to them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

from tests.spark.clusters.round_trips import TOPICS
from tests.spark.programs import SESSION, environment, printed
from tests.support.brokers import Broker
from tests.support.paths import ROOT
from tests.support.spark_home import link_home

PROGRAM = (
    SESSION
    + """
import json
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from tests.spark.clusters.round_trips import round_trips

master, given = sys.argv[1], json.loads(sys.argv[2])
spark = session(master, **{
    "spark.archives": "job.tar.gz#environment", "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
})

class Where(DataSource):
    "Where the Python of a data source finds thalweg: on the driver, and in a task."

    @classmethod
    def name(cls):
        return "where"

    def schema(self):
        return "driver string, task string"

    def reader(self, schema):
        return Places()

class Places(DataSourceReader):
    def partitions(self):
        import thalweg
        return [InputPartition(thalweg.__file__)]

    def read(self, partition):
        import thalweg
        yield partition.value, thalweg.__file__

spark.dataSource.register(Where)
[where] = spark.read.format("where").load().collect()
found = round_trips(spark, given["kafka"], given["folder"], prefix=given["prefix"])
print(json.dumps({"where": where.asDict(), "found": found}))
spark.stop()
"""
)


def pack(folder: Path) -> Path:
    """Makes a virtual environment as venv-pack does, and returns its archive.

    It has a copy of thalweg, and links to the other packages. The folder is gone afterwards.
    """
    made = folder / "made"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    target = made / "lib" / version / "site-packages"
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "thalweg" not in each.name and each.suffix != ".pth":
            (target / each.name).symlink_to(each)
    for package in ("thalweg", "pyspark_thalweg"):
        shutil.copytree(ROOT / "python" / package, target / package)
    archive = folder / "job.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for each in made.iterdir():
            tar.add(each, each.name)
    shutil.rmtree(made)
    return archive


def test_executors_run_thalweg_from_an_archive(
    java: Path, embedded: Broker, tmp_path: Path
) -> None:
    """The steps of docs/cluster.md: the archive is unpacked in the folder of the driver, too."""
    with tarfile.open(pack(tmp_path)) as tar:
        tar.extractall(tmp_path / "environment", filter="fully_trusted")
    prefix = f"{embedded.unused_name('packed')}-"
    for name in TOPICS:
        embedded.wire.create_topic(f"{prefix}{name}", 2)
    home = link_home(tmp_path / "spark")
    python = "./environment/bin/python"
    env = environment(java, SPARK_HOME=str(home), PYSPARK_PYTHON=python, PYTHONPATH=str(ROOT))
    given = {
        "kafka": {"kafka.bootstrap.servers": embedded.bootstrap_servers},
        "folder": str(tmp_path / "checkpoints"),
        "prefix": prefix,
    }
    arguments = ["local-cluster[1,2,1024]", json.dumps(given)]
    text = printed(PROGRAM, env, tmp_path, python, arguments)
    result = json.loads(text.splitlines()[-1])
    assert result["found"] == dict.fromkeys(TOPICS, 20)
    assert result["where"]["driver"].startswith(str(tmp_path / "environment"))
    assert result["where"]["task"].startswith(str(home / "work"))
