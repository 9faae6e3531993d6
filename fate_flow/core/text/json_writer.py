"""JSON without spaces, written by an encoder that is made once.

`json.JSONEncoder.encode` makes one for each call, which takes as long as to write an entry of the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def json_writer(*, sort_keys: bool, ensure_ascii: bool = True, allow_nan: bool = True) -> Callable[[Any], str]:
    """Return a function that writes a value as `json.JSONEncoder` does. The value has no circles."""
    slow = json.JSONEncoder(
        ensure_ascii=ensure_ascii, separators=(",", ":"), allow_nan=allow_nan, check_circular=False, sort_keys=sort_keys
    )
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:         # Python without its part in C
        return slow.encode
    text_of = json.encoder.encode_basestring_ascii if ensure_ascii else _plain_text
    encoder = make(None, slow.default, text_of, None, ":", ",", sort_keys, False, allow_nan)

    def write(value: Any) -> str:
        return "".join(encoder(value, 0))

    return write


_plain_text: Any = getattr(json.encoder, "encode_basestring")  # noqa: B009  # typeshed does not list it
