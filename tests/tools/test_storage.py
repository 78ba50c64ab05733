"""What Kafka's tool writes for one node is copied for the others, with their own IDs."""

from __future__ import annotations

import re

from tests.support.kafka import storage
from tests.support.kafka.storage import META, format_storage, new_id


def meta(folder):
    lines = (folder / META).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_each_folder_has_its_own_ids_and_the_first_the_clusters_metadata(tmp_path, monkeypatch):
    template = tmp_path / "template"
    template.mkdir()
    (template / META).write_text("cluster.id=the template's\n")
    (template / "bootstrap.checkpoint").write_bytes(b"features")
    monkeypatch.setattr(storage, "_template", lambda version: template)
    folders = [tmp_path / "node" / "data-0", tmp_path / "node" / "data-1"]
    cluster = new_id()
    format_storage("4.3", cluster, 7, folders)
    found = [meta(folder) for folder in folders]
    for each in found:
        assert each.items() >= {"version": "1", "cluster.id": cluster, "node.id": "7"}.items()
    assert found[0]["directory.id"] != found[1]["directory.id"]
    assert (folders[0] / "bootstrap.checkpoint").read_bytes() == b"features"
    assert [path.name for path in folders[1].iterdir()] == [META]


def test_an_id_has_kafkas_form():
    found = {new_id() for _ in range(200)}
    assert len(found) == 200
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", each) for each in found)
