"""The example keys of RFC 7515 (appendices A.2 and A.3), which everybody knows.

RSA.pem()      for a client          jwks()      for a broker
RSA.verifies(message, signature)     in plain Python, so it shares no code with the library
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

# P-256 (FIPS 186): y^2 = x^3 - 3x + b over p, with n points.
_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_SHA256_INFO = bytes.fromhex("3031300d060960864801650304020105000420")
_RSA_OID = bytes.fromhex("06092a864886f70d0101010500")
_P256_OID = bytes.fromhex("06082a8648ce3d030107")
_EC_OID = bytes.fromhex("06072a8648ce3d0201")


def _int(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")


def _text(number: int, size: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(size, "big")).rstrip(b"=").decode()


def _der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    if len(body) < 128:
        return bytes([tag, len(body)]) + body
    size = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(size)]) + size + body


def _integer(number: int) -> bytes:
    return _der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _armoured(label: str, der: bytes) -> str:
    return f"-----BEGIN {label}-----\n{base64.encodebytes(der).decode()}-----END {label}-----\n"


@dataclass(frozen=True)
class RsaKey:
    """An RSA key."""

    n: int
    e: int
    d: int
    p: int
    q: int
    kid: str = "rsa"
    algorithm: str = "RS256"

    def pem(self, form: str = "PKCS#8") -> str:
        """Returns the private key as "PKCS#8" or "PKCS#1"."""
        numbers = self.n, self.e, self.d, self.p, self.q
        exponents = self.d % (self.p - 1), self.d % (self.q - 1), pow(self.q, -1, self.p)
        der = _der(0x30, *map(_integer, (0, *numbers, *exponents)))
        if form == "PKCS#1":
            return _armoured("RSA PRIVATE KEY", der)
        wrapped = _der(0x30, _integer(0), _der(0x30, _RSA_OID), _der(0x04, der))
        return _armoured("PRIVATE KEY", wrapped)

    def jwk(self) -> dict[str, Any]:
        size = (self.n.bit_length() + 7) // 8
        return {"kty": "RSA", "n": _text(self.n, size), "e": _text(self.e, 3)}

    def verifies(self, message: bytes, signature: bytes) -> bool:
        size = (self.n.bit_length() + 7) // 8
        opened = pow(int.from_bytes(signature, "big"), self.e, self.n).to_bytes(size, "big")
        info = _SHA256_INFO + hashlib.sha256(message).digest()
        return opened == b"\0\1" + b"\xff" * (size - 3 - len(info)) + b"\0" + info


@dataclass(frozen=True)
class EcKey:
    """A key of the curve P-256."""

    x: int
    y: int
    d: int
    kid: str = "ec"
    algorithm: str = "ES256"

    def pem(self, form: str = "PKCS#8") -> str:
        """Returns the private key as "PKCS#8", "SEC 1", or "half": without the public key."""
        secret = _integer(1), _der(0x04, self.d.to_bytes(32, "big"))
        point = b"\0\4" + self.x.to_bytes(32, "big") + self.y.to_bytes(32, "big")
        public = b"" if form == "half" else _der(0xA1, _der(0x03, point))
        if form == "SEC 1":
            der = _der(0x30, *secret, _der(0xA0, _P256_OID), public)
            return _armoured("EC PRIVATE KEY", der)
        kind = _der(0x30, _EC_OID, _P256_OID)
        der = _der(0x30, _integer(0), kind, _der(0x04, _der(0x30, *secret, public)))
        return _armoured("PRIVATE KEY", der)

    def jwk(self) -> dict[str, Any]:
        return {"kty": "EC", "crv": "P-256", "x": _text(self.x, 32), "y": _text(self.y, 32)}

    def verifies(self, message: bytes, signature: bytes) -> bool:
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        if len(signature) != 64 or not (0 < r < _N and 0 < s < _N):
            return False
        hashed, inverse = int.from_bytes(hashlib.sha256(message).digest(), "big"), pow(s, -1, _N)
        one = _times(hashed * inverse % _N, _G)
        other = _times(r * inverse % _N, (self.x, self.y))
        point = _plus(one, other)
        return point is not None and point[0] % _N == r


_Point = tuple[int, int] | None


def _plus(one: _Point, other: _Point) -> _Point:
    if one is None or other is None:
        return one or other
    if one[0] == other[0]:
        if (one[1] + other[1]) % _P == 0:
            return None
        slope = (3 * one[0] ** 2 - 3) * pow(2 * one[1], -1, _P) % _P
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, _P) % _P
    x = (slope**2 - one[0] - other[0]) % _P
    return x, (slope * (one[0] - x) - one[1]) % _P


def _times(factor: int, point: _Point) -> _Point:
    total: _Point = None
    while factor:
        if factor & 1:
            total = _plus(total, point)
        point, factor = _plus(point, point), factor >> 1
    return total


RSA = RsaKey(
    n=_int(
        "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt"
        "0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSX"
        "ndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5"
        "IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
    ),
    e=65537,
    d=_int(
        "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol"
        "2NXOoAJe46sui395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn43"
        "9X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8"
        "bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ"
    ),
    p=_int(
        "4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw_"
        "Py5PJdTJNPY8cQn7ouZ2KKDcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc"
    ),
    q=_int(
        "uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6ul7TjeLQ"
        "eZD_YwD66t62wDmpe_HlB-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc"
    ),
)
EC = EcKey(
    x=_int("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"),
    y=_int("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"),
    d=_int("jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"),
)

# `EC`, encrypted by OpenSSL with "changeit": openssl pkcs8 -topk8 -v2 aes-256-cbc
EC_ENCRYPTED = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgHV2roofwbOwICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEDfHVU+ecL0RD0ICMEirDg8EgZAO
YQ9Pwd91B87CcaKwrZd+xVESKq0XztRCd8ukfG/udMf/0ERaKQq9ciU54klX7IhQ
QH0dmhu+dt5L87hPE64nUMZlIYcoP3yHz7OayyaylZ6vY6NlwoNosFyAJfbNU5nq
XukEN8qMYByjwjnyeQtWG80BO+pYcm2/z83YM+zUA3fb7bRJhBeOdlQcGBU6AbE=
-----END ENCRYPTED PRIVATE KEY-----
"""


def jwks(*keys: RsaKey | EcKey) -> dict[str, Any]:
    """Returns the public keys as a JSON Web Key Set."""
    return {
        "keys": [{**key.jwk(), "kid": key.kid, "alg": key.algorithm, "use": "sig"} for key in keys]
    }
