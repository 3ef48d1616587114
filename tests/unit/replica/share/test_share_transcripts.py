"""`ottla/replica/share/`: transcripts of a share partition. The language is that of `scripts`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.transcript import check, transcripts
from tests.unit.replica.share.scripts import SharePartitionPlay


@pytest.mark.parametrize("path", transcripts("share_partition"), ids=lambda path: path.stem)
def test_a_share_partition_does_as_written(path: Path, rewrite: bool) -> None:
    check(path, SharePartitionPlay().execute, rewrite=rewrite)
