"""How a broken or missing install affects Spark, in programs with their own Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.spark.conftest import Topics
from tests.spark.programs import SESSION, environment, interpreter_without_thalweg, printed, run

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "thalweg._core":
            raise ImportError("blocked on purpose")
        return None

sys.meta_path.insert(0, Blocked())
"""


def test_register_names_an_interpreter_without_pyarrow(java: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    code = (
        SESSION
        + f"""
os.environ["PYSPARK_PYTHON"] = {str(bare / "bin" / "python")!r}
spark = session()
from thalweg.spark import register
try:
    register(spark)
except ImportError as error:
    print(error)
spark.stop()
"""
    )
    text = printed(code, environment(java), tmp_path)
    assert str(bare / "bin" / "python") in text
    assert "pyarrow" in text
    assert "PYSPARK_PYTHON" in text


def test_register_names_an_interpreter_that_cannot_import_thalweg(
    java: Path, tmp_path: Path
) -> None:
    other = interpreter_without_thalweg(tmp_path / "other")
    code = (
        SESSION
        + f"""
os.environ["PYSPARK_PYTHON"] = {other!r}
spark = session()
from thalweg.spark import register
try:
    register(spark)
except ImportError as error:
    print(error)
spark.stop()
"""
    )
    text = printed(code, environment(java), tmp_path)
    assert f"Spark's workers run {other}, which cannot import thalweg" in text
    assert "No module named 'thalweg'" in text
    assert "PYSPARK_PYTHON" in text


def test_other_sources_are_found_where_the_extension_cannot_be_loaded(
    java: Path, tmp_path: Path
) -> None:
    # Every Python that Spark starts imports sitecustomize first.
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    (tmp_path / "pyspark_neighbour.py").write_text(
        """
from pyspark.sql.datasource import DataSource, DataSourceReader

class Reader(DataSourceReader):
    def read(self, partition):
        yield (7,)

class DefaultSource(DataSource):
    @classmethod
    def name(cls):
        return "neighbour"
    def schema(self):
        return "n int"
    def reader(self, schema):
        return Reader()
"""
    )
    code = (
        SESSION
        + """
os.environ["PYSPARK_PYTHON"] = sys.executable
try:
    import thalweg._core
except ImportError as error:
    print("core:", error)
spark = session()
print("neighbour:", spark.read.format("neighbour").load().collect())
try:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
    spark.read.format("thalweg").options(**options).load().collect()
except Exception as error:
    print("thalweg:", error)
spark.stop()
"""
    )
    text = printed(code, environment(java, PYTHONPATH=str(tmp_path)), tmp_path)
    assert "core: blocked on purpose" in text
    assert "neighbour: [Row(n=7)]" in text
    assert "blocked on purpose" in text.split("thalweg:", 1)[1]


def test_a_broken_package_harms_its_own_users_only(tmp_path: Path) -> None:
    broken = tmp_path / "thalweg"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('broken on purpose')")
    code = (
        "from pyspark_thalweg import DefaultSource\n"
        "print(DefaultSource.name())\n"
        "try:\n"
        "    DefaultSource({}).schema()\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    result = run(["-c", code], environment(tmp_path, PYTHONPATH=str(tmp_path)), tmp_path)
    assert result.stdout.splitlines() == [
        "thalweg",
        "thalweg is installed but cannot be imported: RuntimeError: broken on purpose",
    ]


def test_without_pyspark_python_an_unactivated_environment_is_not_found(
    java: Path, tmp_path: Path, topics: Topics
) -> None:
    # The python3 on PATH has no thalweg. The troubleshooting page explains this case.
    stub = tmp_path / "bin"
    stub.mkdir()
    (stub / "python3").symlink_to(interpreter_without_thalweg(tmp_path / "other"))
    topic = topics.create()
    topics.send(topic, ["a"])
    bootstrap = topics.broker.bootstrap_servers
    code = (
        SESSION
        + f"""
if len(sys.argv) > 1:
    os.environ["PYSPARK_PYTHON"] = sys.executable
spark = session()
options = {{"kafka.bootstrap.servers": {bootstrap!r}, "subscribe": {topic!r}}}
try:
    print("rows:", spark.read.format("thalweg").options(**options).load().count())
except Exception as error:
    print("error:", error)
spark.stop()
"""
    )
    env = environment(java)
    env["PATH"] = f"{stub}:{env['PATH']}"
    assert "DATA_SOURCE_NOT_FOUND" in printed(code, env, tmp_path)
    result = run([str(tmp_path / "program.py"), "set"], env, tmp_path)
    assert "rows: 1" in result.stdout, result.stdout + result.stderr
