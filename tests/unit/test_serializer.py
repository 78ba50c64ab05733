"""Serializers with every interface that kafka-python has had."""

from typing import Any

import pytest

from thalweg.serializer import (
    DefaultSerializer,
    Deserializer,
    DeserializeWrapper,
    JsonSerializer,
    Serializer,
    SerializeWrapper,
    deserialize_function,
    serialize_function,
)


class Whole(Serializer[str], Deserializer[str]):
    def serialize(self, topic, headers, data):
        headers.append(("by", b"me"))
        return f"{topic}:{data}".encode()

    def deserialize(self, topic, headers, data):
        return f"{topic}:{len(headers)}:{data.decode()}"


class WithoutHeaders:
    """The interface of kafka-python 2.x."""

    def serialize(self, topic, value):
        return f"{topic}/{value}".encode()

    def deserialize(self, topic, bytes_):
        return f"{topic}/{bytes_.decode()}"


class VarArgs:
    def serialize(self, *args):
        return repr(len(args)).encode()

    def deserialize(self, *args):
        return len(args)


@pytest.mark.parametrize(
    "given, expected",
    [
        (Whole(), b"t:x"),
        (WithoutHeaders(), b"t/x"),
        (VarArgs(), b"3"),
        (lambda data: data.upper().encode(), b"X"),
        (str.encode, b"x"),
        (DefaultSerializer(), b"x"),
        (JsonSerializer(), b'"x"'),
    ],
)
def test_every_shape_serializes(given, expected):
    function = serialize_function(given)
    assert function is not None
    assert function("t", [], "x") == expected


@pytest.mark.parametrize(
    "given, expected",
    [
        (Whole(), "t:1:x"),
        (WithoutHeaders(), "t/x"),
        (VarArgs(), 3),
        (bytes.decode, "x"),
        (len, 1),
        (DefaultSerializer(), "x"),
    ],
)
def test_every_shape_deserializes(given, expected):
    function = deserialize_function(given)
    assert function is not None
    assert function("t", [("h", b"")], b"x") == expected


def test_a_serializer_may_add_headers():
    headers: list[tuple[str, bytes]] = []
    function = serialize_function(Whole())
    assert function is not None
    function("t", headers, "x")
    assert headers == [("by", b"me")]


@pytest.mark.parametrize("given", [5, "json", object()])
def test_something_else_is_a_type_error(given):
    with pytest.raises(TypeError, match=r"serialize\(\)"):
        serialize_function(given)


def test_none_is_no_serializer():
    assert serialize_function(None) is None
    assert deserialize_function(None) is None


def test_text_and_json_there_and_back():
    for serializer, value in (
        (DefaultSerializer(), "ü"),
        (DefaultSerializer("latin-1"), "ü"),
        (JsonSerializer(), {"a": [1, None, "ü"]}),
    ):
        data = serializer.serialize("t", [], value)
        assert isinstance(data, bytes)
        assert serializer.deserialize("t", [], data) == value


@pytest.mark.parametrize("data", [b"x", bytearray(b"x"), memoryview(b"x"), None])
def test_bytes_pass_through_the_default_serializer(data):
    assert DefaultSerializer().serialize("t", [], data) is data


@pytest.mark.parametrize("data", [5, 1.5, {"a": 1}, ["x"]])
def test_the_default_serializer_names_what_it_does_not_take(data):
    with pytest.raises(TypeError, match=f"takes str, bytes or None, not {type(data).__name__}"):
        DefaultSerializer().serialize("t", [], data)


def test_a_null_stays_a_null():
    assert JsonSerializer().serialize("t", [], None) is None
    assert JsonSerializer().deserialize("t", [], None) is None
    assert DefaultSerializer().deserialize("t", [], None) is None


def test_wrappers_call_with_the_data_alone():
    assert SerializeWrapper(str.encode).serialize("t", [], "x") == b"x"
    assert SerializeWrapper(None).serialize("t", [], b"x") == b"x"
    assert DeserializeWrapper(bytes.decode).deserialize("t", [], b"x") == "x"
    assert DeserializeWrapper(None).deserialize("t", [], b"x") == b"x"


def test_abstract_classes_cannot_be_made():
    kinds: tuple[Any, ...] = (Serializer, Deserializer)
    for kind in kinds:
        with pytest.raises(TypeError, match="abstract"):
            kind()


def test_a_class_is_a_serializer_only_if_its_method_needs_no_object():
    class Static:
        @staticmethod
        def serialize(topic, headers, data):
            return b"static"

        @classmethod
        def deserialize(cls, topic, headers, data):
            return cls

    class Meta(type):
        def serialize(cls, topic, headers, data):
            return b"meta"

    class OfMeta(metaclass=Meta): ...

    with pytest.raises(TypeError, match=r"not the class JsonSerializer: use JsonSerializer\(\)"):
        serialize_function(JsonSerializer)
    with pytest.raises(TypeError, match="the class JsonSerializer"):
        deserialize_function(JsonSerializer)
    for given, expected in ((Static, b"static"), (bytes, b"ab"), (OfMeta, b"meta")):
        function = serialize_function(given)
        assert function is not None
        assert function("t", [], b"ab") == expected
    function = deserialize_function(Static)
    assert function is not None
    assert function("t", [], b"ab") is Static
