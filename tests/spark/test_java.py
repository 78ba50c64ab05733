"""Which versions of Java Spark accepts, and the message for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from thalweg.spark import java

MODULES = "java.base@17\njdk.incubator.vector@17\n"


def fake(folder: Path, version: str, modules: str = MODULES) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; exit; fi\n'
        f"echo '{modules}'\n"
    )
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("version", "feature"), [("17.0.13", 17), ("21", 21), ("25.0.1", 25), ("24-ea", 24)]
)
def test_a_new_enough_java_is_taken(tmp_path: Path, version: str, feature: int) -> None:
    assert java.check(fake(tmp_path, version)) == java.Java(tmp_path, feature)


@pytest.mark.parametrize(("version", "said"), [("1.8.0_412", "Java 8"), ("11.0.2", "Java 11")])
def test_an_old_java_is_named(tmp_path: Path, version: str, said: str) -> None:
    assert java.check(fake(tmp_path, version)) == f"{tmp_path} is {said}, older than Java 17"


def test_a_trimmed_java_is_named(tmp_path: Path) -> None:
    found = java.check(fake(tmp_path, "21.0.1", "java.base@21\n"))
    assert found == f"{tmp_path} lacks the module jdk.incubator.vector"


def test_java_home_comes_first_and_a_bad_one_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, good = fake(tmp_path / "old", "11"), fake(tmp_path / "good", "21")
    monkeypatch.setattr(java, "_PLACES", (str(good),))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert java.find() == java.Java(good, 21)
    monkeypatch.setattr(java, "_PLACES", ())
    missing = java.find()
    assert isinstance(missing, java.Missing)
    assert f"{old} is Java 11" in missing.reason
    assert "JAVA_HOME" in missing.advice


def test_the_java_of_these_tests_is_found(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thalweg.spark.java import Java, find

    monkeypatch.setenv("JAVA_HOME", str(java))
    found = find()
    assert isinstance(found, Java)
    assert found.home == java.resolve()
