"""tools/doctor names everything that is missing, at once, with the command that installs it."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.paths import ROOT

MODULES = "java.base@17\njdk.compiler@17\njdk.incubator.vector@17"


class Machine:
    """A machine whose PATH has only what a test adds."""

    def __init__(self, folder):
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.root = folder / "root"
        self.root.mkdir()
        self.environment = {
            "PATH": str(self.bin),
            "DOCTOR_ROOT": str(self.root),
            "DOCTOR_SYSTEM": "debian",
        }

    def program(self, name, script, folder=None):
        path = (folder or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def prints(self, name, text, folder=None):
        return self.program(name, f"echo '{text}'", folder)

    def python(self, version, name="python3", venv=True):
        venv_script = "exit 0" if venv else "exit 1"
        return self.program(
            name, f'case "$2" in *version_info*) echo {version} ;; *) {venv_script} ;; esac'
        )

    def java(self, version, modules=MODULES, folder=None):
        return self.program(
            "java",
            f'case "$1" in -version) echo \'openjdk version "{version}"\' >&2 ;; '
            f"*) echo '{modules}' ;; esac",
            folder,
        )

    def everything(self):
        self.python("3.12.4")
        self.prints("rustc", "rustc 1.95.0 (59807616e 2026-04-14)")
        self.prints("cargo", "cargo 1.95.0")
        self.prints("cc", "cc 12.2.0")
        self.prints("make", "GNU Make 4.3")
        self.java("17.0.15")
        self.prints("mvn", "Apache Maven 3.8.7")
        self.file("usr/lib/x86_64-linux-gnu/libgssapi_krb5.so.2")
        return self

    def file(self, path):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).touch()
        return self.root / path

    def doctor(self, *arguments, **environment):
        return subprocess.run(
            ["/bin/sh", str(ROOT / "tools" / "doctor"), *arguments],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def missing(self, *arguments, **environment):
        """Returns the names of what the doctor reports as missing."""
        result = self.doctor(*arguments, **environment)
        lines = [
            line for line in result.stderr.splitlines() if line.startswith("  ") and ": " in line
        ]
        names = [line.strip().split(":")[0] for line in lines if not line.startswith("    ")]
        assert result.returncode == (1 if names else 0), result.stdout + result.stderr
        return names


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_an_empty_machine_is_told_everything_at_once(machine):
    names = ["Python", "Rust", "a C compiler", "make", "Java", "Maven", "the Kerberos library"]
    assert machine.missing("test") == names
    assert machine.missing() == names
    assert machine.missing("demo") == names[:-2]
    assert machine.missing("build") == names[:-3]


def test_a_machine_with_everything_passes(machine):
    machine.everything()
    result = machine.doctor("test")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count("  ok  ") == 7


def test_the_kerberos_library_may_be_where_only_the_loader_finds_it(machine):
    library = machine.everything().file("usr/lib/x86_64-linux-gnu/libgssapi_krb5.so.2")
    library.unlink()
    assert machine.missing("test") == []  # the machine's Python loads everything
    machine.program(
        "python3",
        'case "$2" in *version_info*) echo 3.12.4 ;; *ctypes*) exit 1 ;; *) exit 0 ;; esac',
    )
    assert machine.missing("test") == ["the Kerberos library"]
    machine.file("usr/lib64/libgssapi_krb5.so.2")
    assert machine.missing("test") == []
    (machine.root / "usr/lib64/libgssapi_krb5.so.2").unlink()
    assert machine.missing("test", DOCTOR_SYSTEM="macos") == []


@pytest.mark.parametrize(
    ("system", "line"),
    [
        ("debian", "apt-get install openjdk-17-jdk-headless"),
        ("fedora", "dnf install java-21-openjdk-devel java-21-openjdk-jmods"),
        ("macos", "brew install openjdk@21"),
    ],
)
def test_each_missing_thing_comes_with_the_line_that_installs_it(machine, system, line):
    machine.everything()
    (machine.bin / "java").unlink()
    result = machine.doctor("test", DOCTOR_SYSTEM=system)
    assert result.returncode == 1
    assert line in [each.strip() for each in result.stderr.splitlines()]


def test_an_unknown_system_is_given_all_lines(machine):
    result = machine.doctor("build", DOCTOR_SYSTEM="other")
    for name in ("Debian: ", "Fedora: ", "macOS:  "):
        assert result.stderr.count(name) == 4


def test_an_old_python_is_named_with_its_version(machine):
    machine.everything().python("3.10.12")
    result = machine.doctor("build")
    assert "3.11 or newer is needed, the newest found is 3.10.12" in result.stderr


def test_a_newer_python_beside_an_old_one_is_found(machine):
    machine.everything().python("3.9.2")
    newer = machine.python("3.13.1", "python3.13")
    assert machine.missing("build") == []
    assert machine.doctor("--print", "python").stdout.strip() == str(newer)


def test_python_without_venv_is_told_the_package_of_its_version(machine):
    machine.everything().python("3.11.2", venv=False)
    result = machine.doctor("build")
    assert "Python's venv" in result.stderr
    assert "apt-get install python3.11-venv" in result.stderr


def test_rust_must_be_as_new_as_the_manifest_says(machine):
    machine.everything().prints("rustc", "rustc 1.70.0 (90c541806 2023-05-31)")
    result = machine.doctor("build")
    assert "1.89 or newer is needed, rustc is 1.70.0" in result.stderr
    assert "rustup update stable" in result.stderr


def test_a_nightly_rust_counts_by_its_number(machine):
    machine.everything().prints("rustc", "rustc 1.97.0-nightly (abc 2026-10-01)")
    assert machine.missing("build") == []


def test_rustc_without_cargo_is_not_enough(machine):
    machine.everything()
    (machine.bin / "cargo").unlink()
    assert machine.missing("build") == ["Cargo"]


@pytest.mark.parametrize(
    ("version", "modules", "why"),
    [
        ("11.0.2", MODULES, "is 11.0.2"),
        ("1.8.0_392", MODULES, "is 1.8.0_392"),
        ("17.0.1", "java.base@17", "without the module jdk.incubator.vector"),
        ("17.0.1", "java.base@17\njdk.incubator.vector@17", "without a compiler"),
    ],
)
def test_a_java_that_will_not_do_is_named_with_the_reason(machine, version, modules, why):
    machine.everything().java(version, modules)
    result = machine.doctor("test")
    assert result.returncode == 1
    assert why in result.stderr


def test_the_demo_needs_no_java_compiler(machine):
    machine.everything().java("17.0.1", "java.base@17\njdk.incubator.vector@17")
    assert machine.missing("demo") == []


def test_java_is_found_in_java_home_before_the_path(machine, tmp_path):
    machine.everything().java("11.0.2")
    home = tmp_path / "jdk-21"
    java = machine.java("21.0.1", folder=home / "bin")
    result = machine.doctor("--print", "java", JAVA_HOME=str(home))
    assert result.stdout.strip() == str(java)


def test_java_is_found_in_the_usual_places(machine):
    machine.everything()
    (machine.bin / "java").unlink()
    java = machine.java("17.0.15", folder=machine.root / "usr/lib/jvm/java-17/bin")
    assert machine.doctor("--print", "java").stdout.strip() == str(java)
    assert machine.missing("test") == []


def test_printing_what_is_not_there_fails(machine):
    result = machine.doctor("--print", "java")
    assert (result.returncode, result.stdout) == (1, "")


def test_a_wrong_argument_is_refused(machine):
    result = machine.doctor("everything")
    assert result.returncode == 2
    assert "usage" in result.stderr
