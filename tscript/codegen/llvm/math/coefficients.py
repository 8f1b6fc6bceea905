"""Coefficients of polynomials, the constant first, by the bits of the type.

`benchmarks/minimax.py` finds them and writes this file.
"""

from __future__ import annotations

from typing import Final

EXP: Final[dict[int, tuple[float, ...]]] = {
    # (exp(r) - 1 - r) / r² in r, |r| ≤ ln 2 / 2
    32: (
        float.fromhex("0x1.0000000000000p-1"),
        float.fromhex("0x1.5555540000000p-3"),
        float.fromhex("0x1.5554f80000000p-5"),
        float.fromhex("0x1.1112920000000p-7"),
        float.fromhex("0x1.6d3b600000000p-10"),
        float.fromhex("0x1.9f1ef80000000p-13"),
    ),
    # (exp(r) - 1 - r) / r² in r, |r| ≤ ln 2 / 2
    64: (
        float.fromhex("0x1.0000000000000p-1"),
        float.fromhex("0x1.5555555555559p-3"),
        float.fromhex("0x1.555555555555cp-5"),
        float.fromhex("0x1.111111110f601p-7"),
        float.fromhex("0x1.6c16c16c1119dp-10"),
        float.fromhex("0x1.a01a01b03e2cap-13"),
        float.fromhex("0x1.a01a01cbe064bp-16"),
        float.fromhex("0x1.71ddf74c60b0ap-19"),
        float.fromhex("0x1.27e4742899c45p-22"),
        float.fromhex("0x1.af60be1a8ae45p-26"),
        float.fromhex("0x1.203579877e68cp-29"),
    ),
}

LOG: Final[dict[int, tuple[float, ...]]] = {
    # (log(1 + f) - f + f² / 2) / f³ in f, √½ ≤ 1 + f ≤ √2
    32: (
        float.fromhex("0x1.5555540000000p-2"),
        float.fromhex("-0x1.fffffe0000000p-3"),
        float.fromhex("0x1.999bc40000000p-3"),
        float.fromhex("-0x1.54f0fc0000000p-3"),
        float.fromhex("0x1.2389480000000p-3"),
        float.fromhex("-0x1.09e7140000000p-3"),
        float.fromhex("0x1.febf4a0000000p-4"),
        float.fromhex("-0x1.3b9dea0000000p-4"),
    ),
    # (log(1 + f) - f + f² / 2) / f³ in f, √½ ≤ 1 + f ≤ √2
    64: (
        float.fromhex("0x1.555555555556bp-2"),
        float.fromhex("-0x1.0000000000009p-2"),
        float.fromhex("0x1.9999999995710p-3"),
        float.fromhex("-0x1.5555555559ebap-3"),
        float.fromhex("0x1.24924926fa336p-3"),
        float.fromhex("-0x1.fffffffc85965p-4"),
        float.fromhex("0x1.c71c70629d686p-4"),
        float.fromhex("-0x1.9999997e12cfcp-4"),
        float.fromhex("0x1.745d517c8ba7dp-4"),
        float.fromhex("-0x1.55558a016327bp-4"),
        float.fromhex("0x1.3b0e10132e457p-4"),
        float.fromhex("-0x1.2488bdd81232dp-4"),
        float.fromhex("0x1.1162da2a862d8p-4"),
        float.fromhex("-0x1.00cea052e61dep-4"),
        float.fromhex("0x1.dcf82a1e79f52p-5"),
        float.fromhex("-0x1.b4b37a6d6dd51p-5"),
        float.fromhex("0x1.ba793ab8bd4b7p-5"),
        float.fromhex("-0x1.002c5088bcef9p-4"),
        float.fromhex("0x1.d3b1d71fac10ep-5"),
        float.fromhex("-0x1.91924027eb4b7p-6"),
    ),
}

SIN: Final[dict[int, tuple[float, ...]]] = {
    # (sin(r) - r) / r³ in r², |r| ≤ π / 2
    32: (
        float.fromhex("-0x1.5555560000000p-3"),
        float.fromhex("0x1.1111360000000p-7"),
        float.fromhex("-0x1.a023cc0000000p-13"),
        float.fromhex("0x1.72cdc40000000p-19"),
        float.fromhex("-0x1.b61f5e0000000p-26"),
    ),
    # (sin(r) - r) / r³ in r², |r| ≤ π / 2
    64: (
        float.fromhex("-0x1.5555555555555p-3"),
        float.fromhex("0x1.11111111110abp-7"),
        float.fromhex("-0x1.a01a01a00f67dp-13"),
        float.fromhex("0x1.71de3a4cacdedp-19"),
        float.fromhex("-0x1.ae644e2e212efp-26"),
        float.fromhex("0x1.611f7aa41c5a9p-33"),
        float.fromhex("-0x1.aacc85bd83874p-41"),
        float.fromhex("-0x1.a87e5272626f0p-52"),
        float.fromhex("0x1.10de80c65e940p-50"),
        float.fromhex("-0x1.75885943e7a2fp-53"),
        float.fromhex("0x1.b5dfcd14a2f82p-57"),
    ),
}

TAN: Final[dict[int, tuple[float, ...]]] = {
    # (tan(r) - r) / r³ in r², |r| ≤ π / 4
    32: (
        float.fromhex("0x1.5555600000000p-2"),
        float.fromhex("0x1.110d9c0000000p-3"),
        float.fromhex("0x1.bada500000000p-5"),
        float.fromhex("0x1.5cb9b00000000p-6"),
        float.fromhex("0x1.62f5b20000000p-7"),
        float.fromhex("0x1.7e4d8c0000000p-14"),
        float.fromhex("0x1.1ed1240000000p-8"),
    ),
    # (tan(r) - r) / r³ in r², |r| ≤ π / 4
    64: (
        float.fromhex("0x1.555555555555ep-2"),
        float.fromhex("0x1.11111111105d2p-3"),
        float.fromhex("0x1.ba1ba1babf34cp-5"),
        float.fromhex("0x1.664f485d24acbp-6"),
        float.fromhex("0x1.226e3a8183e0fp-7"),
        float.fromhex("0x1.d6d2e7a9f2aadp-9"),
        float.fromhex("0x1.7db18f324b010p-10"),
        float.fromhex("0x1.34bc189f04ddfp-11"),
        float.fromhex("0x1.ff2ea3b39eb3dp-13"),
        float.fromhex("0x1.5e7860d91f681p-14"),
        float.fromhex("0x1.19f6862cf3e58p-14"),
        float.fromhex("-0x1.ae31b56366ac1p-16"),
        float.fromhex("0x1.98115d0bbff9bp-15"),
        float.fromhex("-0x1.975a8be8ead36p-16"),
        float.fromhex("0x1.48dbfefe86bbbp-17"),
    ),
}

SINH: Final[dict[int, tuple[float, ...]]] = {
    # (sinh(x) - x) / x³ in x², |x| ≤ 1
    32: (
        float.fromhex("0x1.5555560000000p-3"),
        float.fromhex("0x1.1110e00000000p-7"),
        float.fromhex("0x1.a022b60000000p-13"),
        float.fromhex("0x1.756df40000000p-19"),
    ),
    # (sinh(x) - x) / x³ in x², |x| ≤ 1
    64: (
        float.fromhex("0x1.5555555555556p-3"),
        float.fromhex("0x1.111111111101ep-7"),
        float.fromhex("0x1.a01a01a03726ap-13"),
        float.fromhex("0x1.71de3a3b0698ap-19"),
        float.fromhex("0x1.ae646ff536af3p-26"),
        float.fromhex("0x1.6116f489f847bp-33"),
        float.fromhex("0x1.b5c89fb48553dp-41"),
    ),
}

ATAN: Final[dict[int, tuple[float, ...]]] = {
    # (atan(x) - x) / x³ in x², |x| ≤ 1
    32: (
        float.fromhex("-0x1.5555520000000p-2"),
        float.fromhex("0x1.99981c0000000p-3"),
        float.fromhex("-0x1.2476200000000p-3"),
        float.fromhex("0x1.c5116e0000000p-4"),
        float.fromhex("-0x1.6953b60000000p-4"),
        float.fromhex("0x1.1509f40000000p-4"),
        float.fromhex("-0x1.70809a0000000p-5"),
        float.fromhex("0x1.7530060000000p-6"),
        float.fromhex("-0x1.e6a06e0000000p-8"),
        float.fromhex("0x1.2968040000000p-10"),
    ),
    # (atan(x) - x) / x³ in x², |x| ≤ 1
    64: (
        float.fromhex("-0x1.5555555555555p-2"),
        float.fromhex("0x1.99999999998fdp-3"),
        float.fromhex("-0x1.249249248f1bap-3"),
        float.fromhex("0x1.c71c71c60d0a1p-4"),
        float.fromhex("-0x1.745d172a57b55p-4"),
        float.fromhex("0x1.3b13af5f9967ep-4"),
        float.fromhex("-0x1.1110fa3bc5f80p-4"),
        float.fromhex("0x1.e1e0418864933p-5"),
        float.fromhex("-0x1.af1d12e149706p-5"),
        float.fromhex("0x1.85da57fcb3508p-5"),
        float.fromhex("-0x1.631dd847741bdp-5"),
        float.fromhex("0x1.43f1bf1c21272p-5"),
        float.fromhex("-0x1.249746329d188p-5"),
        float.fromhex("0x1.008c4558a5f04p-5"),
        float.fromhex("-0x1.a880787e1f067p-6"),
        float.fromhex("0x1.402a78df85c36p-6"),
        float.fromhex("-0x1.a83aff1511b18p-7"),
        float.fromhex("0x1.db32991b940d0p-8"),
        float.fromhex("-0x1.afc1637548858p-9"),
        float.fromhex("0x1.2eb9c1c72d6a0p-10"),
        float.fromhex("-0x1.315b8a089b9c9p-12"),
        float.fromhex("0x1.8889ea3774052p-15"),
        float.fromhex("-0x1.e173caba6f8bbp-19"),
    ),
}

ASIN: Final[dict[int, tuple[float, ...]]] = {
    # (asin(x) - x) / x³ in x², |x| ≤ ½
    32: (
        float.fromhex("0x1.5555c80000000p-3"),
        float.fromhex("0x1.3302040000000p-4"),
        float.fromhex("0x1.747bba0000000p-5"),
        float.fromhex("0x1.8c3e3e0000000p-6"),
        float.fromhex("0x1.595c720000000p-5"),
    ),
    # (asin(x) - x) / x³ in x², |x| ≤ ½
    64: (
        float.fromhex("0x1.5555555555577p-3"),
        float.fromhex("0x1.333333332e131p-4"),
        float.fromhex("0x1.6db6db7212683p-5"),
        float.fromhex("0x1.f1c71a94f2b46p-6"),
        float.fromhex("0x1.6e8bdee04af33p-6"),
        float.fromhex("0x1.1c49f05ba0379p-6"),
        float.fromhex("0x1.ca1f8d9b33f01p-7"),
        float.fromhex("0x1.758587d47fe86p-7"),
        float.fromhex("0x1.613c99171eddfp-7"),
        float.fromhex("0x1.e5f4a90710fa6p-9"),
        float.fromhex("0x1.639cbe5154c54p-6"),
        float.fromhex("-0x1.57fdf18659c50p-6"),
        float.fromhex("0x1.0b46e4b427bddp-5"),
    ),
}

ERF: Final[dict[int, tuple[float, ...]]] = {
    # (erf(x) - x) / x in x², |x| ≤ 1
    32: (
        float.fromhex("0x1.06eba80000000p-3"),
        float.fromhex("-0x1.81273e0000000p-2"),
        float.fromhex("0x1.ce2ce60000000p-4"),
        float.fromhex("-0x1.b7f71e0000000p-6"),
        float.fromhex("0x1.53f24c0000000p-8"),
        float.fromhex("-0x1.a352da0000000p-11"),
        float.fromhex("0x1.4776d60000000p-14"),
    ),
    # (erf(x) - x) / x in x², |x| ≤ 1.2
    64: (
        float.fromhex("0x1.06eba8214db69p-3"),
        float.fromhex("-0x1.812746b037a22p-2"),
        float.fromhex("0x1.ce2f21a04549ep-4"),
        float.fromhex("-0x1.b82ce31339c5ap-6"),
        float.fromhex("0x1.565bcd279560fp-8"),
        float.fromhex("-0x1.c02db84bc243fp-11"),
        float.fromhex("0x1.f9a3a0bc5cd58p-14"),
        float.fromhex("-0x1.f4db865d29263p-17"),
        float.fromhex("0x1.ba61f9b7d189ep-20"),
        float.fromhex("-0x1.64038e971d1f5p-23"),
        float.fromhex("0x1.1cb9b517df765p-26"),
        float.fromhex("-0x1.33958dcdb0da0p-29"),
        float.fromhex("0x1.02f7f44523220p-31"),
        float.fromhex("-0x1.895b3f216f52ap-34"),
        float.fromhex("0x1.2a09cd766138bp-37"),
    ),
}

ERFC: Final[dict[int, tuple[float, ...]]] = {
    # -log(1 - erf(a)) in a - 2, 1 ≤ a ≤ 4.05
    32: (
        float.fromhex("0x1.575b320000000p+2"),
        float.fromhex("0x1.1ac3d60000000p+2"),
        float.fromhex("0x1.d90da40000000p-1"),
        float.fromhex("0x1.0cbcea0000000p-6"),
        float.fromhex("-0x1.3263700000000p-8"),
        float.fromhex("-0x1.0a08840000000p-11"),
        float.fromhex("0x1.6a7c600000000p-12"),
        float.fromhex("0x1.6b30120000000p-10"),
        float.fromhex("0x1.1da48c0000000p-11"),
    ),
    # -log(1 - erf(a)) in a - 3, 1.2 ≤ a ≤ 6.1
    64: (
        float.fromhex("0x1.570d36cb51ca6p+3"),
        float.fromhex("0x1.9370b35013ba6p+2"),
        float.fromhex("0x1.ea2f933642f3ep-1"),
        float.fromhex("0x1.e5bee8dcfacb3p-8"),
        float.fromhex("-0x1.62c3204a9d3eap-10"),
        float.fromhex("0x1.01a07ae7a1fc3p-12"),
        float.fromhex("-0x1.6965708669e9dp-15"),
        float.fromhex("0x1.dd82c263ce24dp-18"),
        float.fromhex("-0x1.1f101c051e116p-20"),
        float.fromhex("0x1.246dea055a14ep-23"),
        float.fromhex("-0x1.89ab42056724bp-27"),
        float.fromhex("-0x1.5848d5069ae12p-31"),
        float.fromhex("0x1.50f26a9663148p-31"),
        float.fromhex("-0x1.a99fae8fd973fp-33"),
        float.fromhex("0x1.5e34a4f5955f8p-35"),
        float.fromhex("-0x1.27df096b1c458p-37"),
        float.fromhex("0x1.b58e1e1d4dd16p-39"),
        float.fromhex("0x1.1c88a93d3e0c3p-41"),
        float.fromhex("-0x1.8384503a448adp-43"),
        float.fromhex("-0x1.995af36bc6bf4p-43"),
        float.fromhex("-0x1.14c86fa5ade2ep-45"),
        float.fromhex("0x1.ae19c76cd7cedp-47"),
        float.fromhex("0x1.4c512c0c2483dp-48"),
        float.fromhex("0x1.29e6e910d4d1fp-51"),
    ),
}

ATANH: Final[dict[int, tuple[float, ...]]] = {
    # (atanh(t) - t - t³ / 3) / t⁵ in t², |t| ≤ (√2 - 1)²
    64: (
        float.fromhex("0x1.999999999999ap-3"),
        float.fromhex("0x1.2492492492363p-3"),
        float.fromhex("0x1.c71c71c747ea2p-4"),
        float.fromhex("0x1.745d172bc8b3dp-4"),
        float.fromhex("0x1.3b13ba5a86481p-4"),
        float.fromhex("0x1.110f1c3ca9b63p-4"),
        float.fromhex("0x1.e2657cb5f327bp-5"),
        float.fromhex("0x1.a50913ea19d1fp-5"),
        float.fromhex("0x1.eca08daac91eap-5"),
    ),
}
