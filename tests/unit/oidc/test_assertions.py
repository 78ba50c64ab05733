"""Logins with an assertion instead of a secret: what the client signs, and what it sends."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.identity import IdentityProvider, document, jwt, status
from tests.support.identity.keys import EC, EC_ENCRYPTED, RSA
from tests.unit.oidc.support import answer, tokens
from thalweg import Secret
from thalweg._core import sign_jwt
from thalweg.auth.oidc import AssertionSettings, OidcError

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        yield started


def assertions(**more: Any) -> dict[str, Any]:
    """Returns settings of a client that signs with `RSA`, unless `more` says otherwise."""
    given = {"private_key": Secret(RSA.pem()), "iss": "me", "aud": "https://idp", **more}
    return {"assertion": AssertionSettings(**given), "client_secret": None}


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    """Returns header, payload, signature and the message that was signed."""
    message, _, signature = token.rpartition(".")
    header, payload = (json.loads(_decoded(each)) for each in message.split("."))
    return header, payload, _decoded(signature), message.encode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# ---------------------------------------------------------------- signatures


def test_rs256_signs_the_example_of_rfc_7515():
    payload = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290"
    message = f"eyJhbGciOiJSUzI1NiJ9.{payload}Ijp0cnVlfQ"
    signature = (
        "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W"
        "2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkS"
        "jtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnv"
        "Wh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
    )
    for form in ("PKCS#8", "PKCS#1"):
        assert sign_jwt("RS256", RSA.pem(form), None, message.encode()) == _decoded(signature)
    assert RSA.verifies(message.encode(), _decoded(signature))


@pytest.mark.parametrize("form", ["PKCS#8", "SEC 1"])
def test_es256_signs_so_that_the_public_key_verifies(form):
    signature = sign_jwt("ES256", EC.pem(form), None, b"message")
    assert EC.verifies(b"message", signature)
    assert not EC.verifies(b"another", signature)


def test_an_encrypted_key_needs_its_passphrase():
    signature = sign_jwt("ES256", EC_ENCRYPTED, "changeit", b"message")
    assert EC.verifies(b"message", signature)
    with pytest.raises(ValueError, match="another password"):
        sign_jwt("ES256", EC_ENCRYPTED, "hunter2", b"message")
    with pytest.raises(ValueError, match="there is no password"):
        sign_jwt("ES256", EC_ENCRYPTED, None, b"message")


@pytest.mark.parametrize(
    "algorithm, pem, words",
    [
        ("RS256", EC.pem(), "is not an RSA key"),
        ("ES256", RSA.pem(), "is not an EC key of the curve P-256"),
        ("ES256", EC.pem("half"), "with its public key"),
        ("RS256", "", "contains no PEM private key"),
        ("RS256", RSA.pem()[:400], "has no END line"),
        ("HS256", RSA.pem(), "not supported"),
    ],
)
def test_a_key_that_does_not_fit_is_refused(algorithm, pem, words):
    with pytest.raises(ValueError, match=words):
        sign_jwt(algorithm, pem, None, b"message")


# ---------------------------------------------------------------- grants


def test_an_assertion_replaces_the_secret(idp):
    more = assertions(sub="svc", jti_include=True)
    began = time.time()
    tokens(idp.token_url, scope="kafka", **more).token()
    (request,) = idp.requests
    made = request.form.pop("client_assertion")
    assert request.form == {
        "grant_type": "client_credentials",
        "client_assertion_type": ASSERTION_TYPE,
        "client_id": "our-client",
        "scope": "kafka",
    }
    assert "authorization" not in request.headers
    header, payload, signature, message = parts(made)
    assert header == {"typ": "JWT", "alg": "RS256"}
    iat = payload.pop("iat")
    assert began - 1 <= iat <= time.time(), "in whole seconds"
    assert payload.pop("exp") == iat + 300
    assert payload.pop("nbf") == iat - 60
    assert len(payload.pop("jti")) == 36
    assert payload == {"iss": "me", "sub": "svc", "aud": "https://idp"}
    assert RSA.verifies(message, signature)


def test_an_assertion_can_be_the_grant(idp):
    more = assertions(private_key=Secret(EC.pem()), algorithm="ES256")
    tokens(idp.token_url, jwt_bearer=True, **more).token()
    made = idp.requests[0].form.pop("assertion")
    assert idp.requests[0].form == {"grant_type": JWT_BEARER}
    header, _, signature, message = parts(made)
    assert header["alg"] == "ES256"
    assert EC.verifies(message, signature)


def test_google_responds_with_an_id_token(idp, tmp_path):
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"payload": {"target_audience": "kafka"}}))
    idp.respond(document({"id_token": jwt(sub="svc", exp=time.time() + 60)}))
    more = assertions(template_file=str(template))
    assert tokens(idp.token_url, jwt_bearer=True, **more).token().principal == "svc"
    assert parts(idp.requests[0].form["assertion"])[1]["target_audience"] == "kafka"


def test_claims_of_options_are_stronger_than_the_template(idp, tmp_path):
    template = tmp_path / "template.json"
    text = {
        "header": {"kid": "k1", "alg": "none", "typ": "at+jwt"},
        "payload": {"iss": "template", "sub": "template", "exp": 1, "aud": ["a", "b"]},
    }
    template.write_text(json.dumps(text))
    more = assertions(template_file=str(template), aud=None)
    tokens(idp.token_url, **more).token()
    header, payload, *_ = parts(idp.requests[0].form["client_assertion"])
    assert header == {"kid": "k1", "alg": "RS256", "typ": "at+jwt"}
    assert (payload["iss"], payload["sub"], payload["aud"]) == ("me", "template", ["a", "b"])
    assert payload["exp"] > time.time()


# ---------------------------------------------------------------- files


def test_scenario_63_files_are_replaced_while_the_client_runs(idp, tmp_path):
    key, template = tmp_path / "key.pem", tmp_path / "template.json"
    key.write_text(RSA.pem())
    template.write_text('{"header": {"kid": "one"}}')
    more = assertions(private_key=str(key), template_file=str(template), algorithm="ES256")
    provider = tokens(idp.token_url, **more)
    reason, _ = answer(provider)
    assert reason.startswith(f"OIDC: POST {idp.token_url}: sasl_oauthbearer_assertion_private_key")
    assert "is not an EC key" in reason
    key.write_text(EC.pem())
    for kid in ("one", "two"):
        template.write_text(json.dumps({"header": {"kid": kid}}))
        provider.token()
        header, _, signature, message = parts(idp.requests[-1].form["client_assertion"])
        assert header["kid"] == kid
        assert EC.verifies(message, signature)


def test_the_passphrase_may_come_from_a_function(idp):
    passphrases = iter([Secret("hunter2"), "changeit"])
    more = assertions(
        private_key=Secret(EC_ENCRYPTED),
        algorithm="ES256",
        passphrase=lambda: next(passphrases),
    )
    provider = tokens(idp.token_url, **more)
    reason, _ = answer(provider)
    assert "private_key_file: the private key is encrypted with another password. " in reason
    assert "set sasl_oauthbearer_assertion_private_key_passphrase to" in reason
    assert "hunter2" not in reason
    assert provider.token().principal == "alice"


def test_a_file_has_the_complete_assertion(idp, tmp_path):
    place = tmp_path / "assertion"
    provider = tokens(idp.token_url, assertion=AssertionSettings(file=str(place)))
    with pytest.raises(OidcError, match=f"{place} cannot be read: No such file"):
        provider.token()
    for text in ("first", "second"):
        place.write_text(f"{text}\n")
        provider.token()
        assert idp.requests[-1].form["client_assertion"] == text
    place.write_text(" \n")
    with pytest.raises(OidcError, match="is empty"):
        provider.token()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"header": 5}', '{"payload": []}', "[" * 99999])
def test_a_wrong_template_is_named(idp, tmp_path, text):
    template = tmp_path / "template.json"
    template.write_text(text)
    with pytest.raises(
        OidcError, match=r"sasl_oauthbearer_assertion_template_file: .* JSON object"
    ):
        tokens(idp.token_url, **assertions(template_file=str(template))).token()
    assert not idp.requests


def test_a_file_that_is_not_a_small_text_is_refused(idp, tmp_path):
    place = tmp_path / "key.pem"
    place.write_bytes(b"\xff\xfe")
    with pytest.raises(OidcError, match="not UTF-8 text"):
        tokens(idp.token_url, **assertions(private_key=str(place))).token()
    with place.open("wb") as file:
        os.truncate(file.fileno(), 1 << 31)
    with pytest.raises(OidcError, match="larger than 1048576 bytes"):
        tokens(idp.token_url, **assertions(private_key=str(place))).token()


def test_the_token_can_come_from_a_file(tmp_path):
    place = tmp_path / "a token"
    url = place.as_uri()
    assert url.startswith("file:///")
    assert "%20" in url
    provider = tokens(url)
    with pytest.raises(OidcError, match=r"^OIDC: sasl_oauthbearer_token_endpoint_url: .*No such"):
        provider.token()
    for subject in ("alice", "bob"):
        exp = time.time() + 600
        place.write_text(jwt(sub=subject, exp=exp) + "\n")
        token = provider.token()
        assert token.principal == subject
        assert token.expires_at == pytest.approx(exp, abs=5)
    for wrong in ("", "\u00e9"):
        place.write_text(wrong, encoding="utf-8")
        with pytest.raises(OidcError, match="the file contains no token"):
            provider.token()


def test_no_error_shows_an_assertion_or_a_key(idp):
    for kind in ("error", "text"):
        more = assertions(jti_include=True, sub=kind)

        def echo(handler: Any, kind: str = kind) -> None:
            made = handler.provider.requests[-1].form["client_assertion"]
            told = {"error": "x", "error_description": "y"}
            told["error" if kind == "error" else "error_description"] = f"got {made}"
            document(told, 401)(handler)

        idp.respond(echo)
        reason, error = answer(tokens(idp.token_url, **more))
        made = idp.requests[-1].form["client_assertion"]
        assert "<hidden>" in reason
        for text in (reason, repr(error)):
            assert made not in text
            assert made.rpartition(".")[2] not in text
    idp.respond(status(401))
    _, error = answer(tokens(idp.token_url, **assertions(sub="frames")))
    entry = error.__traceback__
    while entry is not None:
        assert "PRIVATE KEY" not in repr(entry.tb_frame.f_locals)
        entry = entry.tb_next


@pytest.mark.parametrize("function", [lambda: 5, lambda: int("hunter2")])
def test_a_function_that_supplies_no_passphrase_is_named(idp, function, tmp_path: Path):
    reason, _ = answer(tokens(idp.token_url, **assertions(passphrase=function)))
    assert reason.startswith("the function in sasl_oauthbearer_assertion_private_key_passphrase")
    assert "hunter2" not in reason
