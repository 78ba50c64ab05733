"""Logging: loggers with a NullHandler, and the core's events under their names."""

import logging

from thalweg import _logging


def test_the_root_of_our_loggers_has_a_null_handler():
    handlers = logging.getLogger("thalweg").handlers
    assert any(isinstance(each, logging.NullHandler) for each in handlers)


def test_an_event_of_the_core_is_logged_as_it_is(caplog):
    with caplog.at_level(logging.DEBUG, "thalweg"):
        _logging.emit("network", logging.WARNING, "100% of %s lost")
    assert caplog.record_tuples == [("thalweg.network", logging.WARNING, "100% of %s lost")]


def test_the_core_learns_the_levels(fake, monkeypatch):
    import thalweg._core as core

    levels: dict[str, int] = {}
    monkeypatch.setattr(core, "set_log_level", levels.__setitem__)
    logger = logging.getLogger("thalweg.network")
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    logging.getLogger("thalweg").setLevel(logging.ERROR)
    try:
        _logging.refresh()
    finally:
        logging.getLogger("thalweg").setLevel(logging.NOTSET)
    assert levels["network"] == logging.DEBUG
    assert levels["producer"] == logging.ERROR
