"""The retcodes of FATE's envelope: one table for all errors of the product, which know none themselves."""

from __future__ import annotations

import pytest

from fate_flow.core.model import errors
from fate_flow.core.model.errors import FlowError
from fate_flow.core.wire.v1.retcodes import DecidedBefore, TooOld, retcode_of

KINDS = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, FlowError)]


@pytest.mark.parametrize(("error", "retcode"), [
    (errors.FlowError(), 100), (errors.BadRequest(), 101), (errors.BadDocument("a.b", "is wrong"), 101),
    (errors.NotFound(), 101), (errors.JobNotFound(), 102), (errors.NotOffered(), 100), (errors.Conflict(), 100),
    (errors.OperationFailed(), 103), (errors.Refused(), 103), (errors.NotEffective(), 10), (errors.NotReady(), 106),
    (errors.PeerUnreachable(), 104), (errors.PermissionDenied(), 108), (errors.Busy(), 503),
    (errors.StorageFailed(), 500), (errors.StorageUnavailable(), 500), (errors.CommitUnknown(), 500),
    (errors.BadSettings(), 100), (errors.TooLarge(), 413), (errors.TooMany(), 429), (errors.NoSpace(), 507),
    (TooOld(), 107), (DecidedBefore(108, "no"), 108),
])  # fmt: skip
def test_each_error_has_one(error: FlowError, retcode: int) -> None:
    assert retcode_of(error) == retcode


@pytest.mark.parametrize("kind", KINDS)
def test_the_errors_of_the_product_know_no_envelope(kind: type[FlowError]) -> None:
    assert not {"retcode", "status", "code"} & set(dir(kind))
